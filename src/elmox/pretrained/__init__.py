"""Everything that turns a path or a name into a model."""
