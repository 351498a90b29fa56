"""Dropout with masks that follow from a key."""
