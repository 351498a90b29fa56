"""Packed rows: sequences side by side, step after step, without padding.

Rows come by falling length, so that those which still have a word at a step are the first ones.

Shapes: R rows, P words of them all, S steps.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.io.transfer import to_device


@dataclass(frozen=True)
class Packing:
    """Where the words of rows lie: step after step, within a step in the order of the rows.

    Attributes:
        sizes: rows that have a word at each step; they are the first ones.
        steps: (P,) each word's place in its row.
        rows: (P,) its row.
    """

    sizes: tuple[int, ...]
    steps: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> "Packing":
        """For rows of these lengths, the longest first."""
        real = np.arange(lengths.max(initial=0))[:, None] < lengths
        steps, rows = real.nonzero()
        return cls(tuple(real.sum(1).tolist()), steps, rows)

    def on(self, device: torch.device) -> "PackedRows":
        """What layers there need of it."""
        starts = np.cumsum((0, *self.sizes))
        later = self.steps > 0
        earlier = starts[self.steps[later] - 1] + self.rows[later]
        return PackedRows(self.sizes, to_device(starts, device), to_device(earlier, device))


class PackedRows(NamedTuple):
    """Where the words of rows lie, for layers on a device."""

    sizes: tuple[int, ...]  # rows that have a word at each step
    starts: Tensor  # (S + 1,) places of the steps' first words; the number of words comes last
    earlier: Tensor  # (P - R,) of each word from the second step on: the place of the one before it
