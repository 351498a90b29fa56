"""Dependencies: a biaffine parser."""
