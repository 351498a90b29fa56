"""Scores as people read them."""


def shown_score(value: float) -> str:
    """A percentage with two digits; a number of examples, an int, as it is."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
