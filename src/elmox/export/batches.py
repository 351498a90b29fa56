"""Batches for a runtime that pads: sentences of similar length, with little padding.

A step of a batch costs as much as its rows and, on top, `step_cost` rows: the weights are read from
memory once per step. So a new batch, whose steps cost that again, is worth it as soon as the rows
of the present one would be padded by more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def plan_padded_batches(
    lengths: Sequence[int] | NDArray[np.int64],
    batch_tokens: int,
    batch_size: int | None = None,
    step_cost: int = 4,
) -> list[NDArray[np.int64]]:
    """Divide sentences into batches, longest first.

    Args:
        lengths: number of tokens of each sentence.
        batch_tokens: maximum number of tokens per batch, padding included. A longer sentence is a
            batch of its own.
        batch_size: maximum number of sentences per batch; None for no limit.
        step_cost: cost of one more time step, in rows.

    Returns:
        Positions in `lengths`; each one occurs exactly once.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    starts: list[int] = []
    longest = padding = num_rows = 0
    for position, length in enumerate(sizes[order].tolist()):
        padding += longest - length
        num_rows += 1
        if (
            not starts
            or num_rows * longest > batch_tokens
            or num_rows > (batch_size or num_rows)
            or padding > step_cost * length
        ):
            starts.append(position)
            longest, padding, num_rows = length, 0, 1
    return np.split(order, starts[1:]) if starts else []
