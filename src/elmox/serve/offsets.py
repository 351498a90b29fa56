"""Positions of tokens in the text that they were split from."""

from collections.abc import Sequence

Offsets = list[tuple[int, int]]


def token_offsets(text: str, tokens: Sequence[str]) -> Offsets | None:
    """Return the start and end of each token, in characters of the text.

    None if a tokenizer has changed the text, so that a token cannot be found in it.
    """
    offsets: Offsets = []
    position = 0
    for token in tokens:
        start = text.find(token, position)
        if start < 0:
            return None
        position = start + len(token)
        offsets.append((start, position))
    return offsets
