"""Static word vectors as text: GloVe's format, and word2vec's, which has a line with sizes first.

    the 0.418 0.24968 -0.41242
    of 0.70853 0.57088 -0.4716

Files list frequent words first, so the first lines are the most useful.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text


class WordVectors(NamedTuple):
    """Words and their vectors."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]  # (number of words, width)


def read_word_vectors(path: Path, most: int | None = None) -> WordVectors:
    """Read a file, plain or compressed (.gz, .xz, .bz2, .zst).

    Args:
        path: the file.
        most: maximum number of words, from the first line on; None for all. Repeated words are
            skipped.

    Raises:
        ElmoxError: a line is malformed, or there is none; the message names file and line.
    """
    vectors: dict[str, NDArray[np.float32]] = {}
    width = 0
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if most is not None and len(vectors) >= most:
                break
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue  # word2vec's sizes
            width = width or len(fields) - 1
            # A word may contain spaces: only the number of values after it is fixed.
            word, values = " ".join(fields[:-width]), fields[-width:]
            vectors.setdefault(word, _vector(path, number, word, values, width))
    if not vectors:
        raise ElmoxError(f"{path} has no vectors: expected a word and its values a line")
    return WordVectors(tuple(vectors), np.stack(list(vectors.values())))


def _vector(
    path: Path, number: int, word: str, values: list[str], width: int
) -> NDArray[np.float32]:
    try:
        vector = np.array(values, np.float32)
    except ValueError:
        vector = np.empty(0, np.float32)
    if not word or not width or len(vector) != width or not np.isfinite(vector).all():
        shown = " ".join([word, *values])[:60]
        raise ElmoxError(
            f"{path}, line {number}: expected a word and {width or 'some'} finite numbers after "
            f"it, got {shown!r}"
        )
    return vector
