"""Labels of words, side by side like the sentences that they belong to."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def padded_labels(
    rows: Iterable[Sequence[int]], shape: tuple[int, ...], fill: int
) -> NDArray[np.int64]:
    """Numbers of labels, (N, T).

    Args:
        rows: those of each sentence.
        shape: N and T.
        fill: what stands at padding.
    """
    found = np.full(shape, fill, np.int64)
    for row, labels in zip(found, rows, strict=True):
        row[: len(labels)] = labels
    return found
