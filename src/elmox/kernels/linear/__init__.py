"""Linear layers: packed and 8-bit products."""
