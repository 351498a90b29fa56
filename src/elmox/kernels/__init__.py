"""Fast versions of what `model/` computes plainly, one folder per operation."""
