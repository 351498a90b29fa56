"""Coreference: end-to-end span ranking."""
