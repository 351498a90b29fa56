"""Word senses by nearest neighbor."""
