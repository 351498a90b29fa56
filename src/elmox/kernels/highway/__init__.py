"""Highway layers."""
