"""Sentiment: a biattentive classification network."""
