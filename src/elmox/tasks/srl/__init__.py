"""Semantic roles: a stack of highway LSTMs."""
