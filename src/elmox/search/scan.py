"""Exact search: the cosines of all rows of a range, block by block."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from elmox.search.index_file import IndexFile
from elmox.search.quantized import Float32, cosines, dequantize

ROWS_AT_ONCE = 2**15


def blocks(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Split a range of rows into blocks that fit into memory."""
    for first in range(start, stop, ROWS_AT_ONCE):
        yield first, min(first + ROWS_AT_ONCE, stop)


def scan(file: IndexFile, unit: Float32, start: int, stop: int) -> Float32:
    """Return the cosine of each row of a range with a unit vector."""
    similarities = np.empty(stop - start, np.float32)
    for first, last in blocks(start, stop):
        values = cosines(file.read("vectors", first, last), file.read("scales", first, last), unit)
        similarities[first - start : last - start] = values
    if not np.isfinite(similarities).all():
        raise file.damaged("some scales are not finite")
    return similarities


def unit_vectors(file: IndexFile, rows: NDArray[np.int64]) -> Float32:
    """Return the vectors of some rows, in ascending order, at length 1."""
    vectors = np.empty((len(rows), file.dim), np.float32)
    for first, last in _runs(rows):
        start, stop = int(rows[first]), int(rows[last - 1]) + 1
        vectors[first:last] = dequantize(
            file.read("vectors", start, stop), file.read("scales", start, stop)
        )
    if not np.isfinite(vectors).all():
        raise file.damaged("some scales are not finite")
    return vectors


def descending(similarities: Float32, first: int) -> Iterator[int]:
    """Yield the indexes of the similarities, highest first; at first only the `first` highest.

    Among equal ones, the lower index comes first.
    """
    num_done, num_ready = 0, min(first, len(similarities))
    while num_done < len(similarities):
        if num_ready < len(similarities):
            bound = np.partition(similarities, -num_ready)[-num_ready]
            ready = np.flatnonzero(similarities >= bound)
        else:
            ready = np.arange(len(similarities))
        order = ready[np.argsort(-similarities[ready], kind="stable")]
        yield from order[num_done:].tolist()
        num_done, num_ready = len(order), min(4 * num_ready, len(similarities))


def _runs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of indexes in which rows are consecutive, each within a block."""
    breaks = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
    for start, stop in zip([0, *breaks], [*breaks, len(rows)], strict=True):
        yield from blocks(start, stop)
