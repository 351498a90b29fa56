"""Packed rows: sequences side by side, step after step, without padding.

Rows are sorted by falling length, so that those which still have a word at a step come first.

Shapes: R rows, P words of all rows, S steps.
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
    """The order of packed words: step after step, within a step in the order of the rows.

    Attributes:
        sizes: number of rows that have a word at each step; they are the first ones.
        steps: (P,) each word's position in its row.
        rows: (P,) its row.
    """

    sizes: tuple[int, ...]
    steps: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> "Packing":
        """Return the packing of rows of these lengths, the longest first."""
        real = np.arange(lengths.max(initial=0))[:, None] < lengths
        steps, rows = real.nonzero()
        return cls(tuple(real.sum(1).tolist()), steps, rows)

    def on(self, device: torch.device) -> "PackedRows":
        """Return what layers on a device need."""
        starts = np.cumsum((0, *self.sizes))
        later = self.steps > 0
        earlier = starts[self.steps[later] - 1] + self.rows[later]
        return PackedRows(self.sizes, to_device(starts, device), to_device(earlier, device))


class PackedRows(NamedTuple):
    """The packing of rows, for layers on a device."""

    sizes: tuple[int, ...]  # number of rows that have a word at each step
    starts: Tensor  # (S + 1,) indices of the steps' first words, then the number of words
    earlier: Tensor  # (P - R,) for words from the second step on: index of the word before
