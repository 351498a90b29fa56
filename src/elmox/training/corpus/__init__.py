"""Text as word ids on disk."""
