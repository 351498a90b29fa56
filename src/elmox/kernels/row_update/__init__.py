"""Optimizer updates of single rows."""
