"""A linear probe of parts of speech per layer."""
