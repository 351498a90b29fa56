"""The LSTMs' state as an explicit value: what a row remembers between calls.

Shapes: L layers, D directions (0 forward, 1 backward), B rows, P projection, C cells.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmox.config import LstmConfig


@dataclass(frozen=True)
class LstmState:
    """Hidden and cell state of B rows. Nothing in elmox changes one in place."""

    hidden: Tensor  # (L, D, B, P): the clipped projection
    cell: Tensor  # (L, D, B, C): the clipped cell

    @property
    def num_rows(self) -> int:
        """How many rows (sentences, or parallel streams) it covers."""
        return self.hidden.shape[2]

    def rows(self, index: Tensor) -> "LstmState":
        """The state of some rows, in the order given."""
        return LstmState(self.hidden[:, :, index], self.cell[:, :, index])

    def expand(self, num_rows: int) -> "LstmState":
        """One row's state for every one of `num_rows` rows."""
        assert self.num_rows == 1
        return LstmState(
            self.hidden.expand(-1, -1, num_rows, -1), self.cell.expand(-1, -1, num_rows, -1)
        )

    def with_rows(self, index: Tensor, update: "LstmState") -> "LstmState":
        """A copy in which some rows have been replaced."""
        return LstmState(
            self.hidden.index_copy(2, index, update.hidden),
            self.cell.index_copy(2, index, update.cell),
        )

    def append(self, other: "LstmState") -> "LstmState":
        """The rows of both, one after the other."""
        return LstmState(
            torch.cat([self.hidden, other.hidden], dim=2), torch.cat([self.cell, other.cell], dim=2)
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> "LstmState":
        """The same values elsewhere."""
        return LstmState(self.hidden.to(device, dtype), self.cell.to(device, dtype))


def zero_state(
    config: LstmConfig, num_rows: int, device: torch.device, dtype: torch.dtype
) -> LstmState:
    """The state of rows that have read nothing yet."""
    shape = (config.num_layers, config.num_directions, num_rows)
    return LstmState(
        torch.zeros(*shape, config.projection_dim, device=device, dtype=dtype),
        torch.zeros(*shape, config.cell_dim, device=device, dtype=dtype),
    )
