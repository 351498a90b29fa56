"""Files: opening, reading and writing them so that nothing is ever half there."""
