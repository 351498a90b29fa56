"""Textual entailment: ESIM."""
