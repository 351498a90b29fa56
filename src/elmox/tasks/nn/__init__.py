"""Layers that several tasks share."""
