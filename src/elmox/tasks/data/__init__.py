"""Labeled text, and batches of it."""
