"""Fitting a task model: the loop, seeds, ablations, cached layers."""
