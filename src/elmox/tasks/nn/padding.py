"""Labels of words, padded like their sentences."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def padded_labels(
    rows: Iterable[Sequence[int]], shape: tuple[int, ...], fill: int
) -> NDArray[np.int64]:
    """Return padded indices of labels, (N, T).

    Args:
        rows: the label indices of each sentence.
        shape: N and T.
        fill: the value at padding.
    """
    table = np.full(shape, fill, np.int64)
    for row, labels in zip(table, rows, strict=True):
        row[: len(labels)] = labels
    return table
