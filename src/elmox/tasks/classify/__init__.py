"""Text classification with the user's labels."""
