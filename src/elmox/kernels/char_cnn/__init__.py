"""The character CNN."""
