"""Training text as word ids on disk."""
