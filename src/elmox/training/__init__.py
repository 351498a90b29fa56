"""From plain text to a biLM."""
