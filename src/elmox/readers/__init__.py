"""Labelled text in the formats in which others publish it."""
