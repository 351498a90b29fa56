"""Extractive question answering: bidirectional attention."""
