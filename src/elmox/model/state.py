"""The LSTMs' state as an explicit value, which is passed in and returned.

Shapes: L layers, D directions (0 forward, 1 backward), B rows, P projection, C cells.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.config import LstmConfig


@dataclass(frozen=True)
class LstmState:
    """Hidden and cell state of B rows. Nothing in elmox changes one in place."""

    hidden: Tensor  # (L, D, B, P): the clipped projection
    cell: Tensor  # (L, D, B, C): the clipped cell

    @property
    def num_rows(self) -> int:
        """Number of rows: sentences, or parallel streams."""
        return self.hidden.shape[2]

    def rows(self, index: Tensor) -> "LstmState":
        """Return the state of some rows, in the order given."""
        return LstmState(self.hidden[:, :, index], self.cell[:, :, index])

    def expand(self, num_rows: int) -> "LstmState":
        """Return the state of one row, repeated for `num_rows` rows."""
        assert self.num_rows == 1
        return LstmState(
            self.hidden.expand(-1, -1, num_rows, -1), self.cell.expand(-1, -1, num_rows, -1)
        )

    def with_rows(self, index: Tensor, update: "LstmState") -> "LstmState":
        """Return a copy in which some rows are replaced."""
        return LstmState(
            self.hidden.index_copy(2, index, update.hidden),
            self.cell.index_copy(2, index, update.cell),
        )

    def append(self, other: "LstmState") -> "LstmState":
        """Return the rows of both, one after the other."""
        return LstmState(
            torch.cat([self.hidden, other.hidden], dim=2), torch.cat([self.cell, other.cell], dim=2)
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> "LstmState":
        """Return the same values on another device, in another precision."""
        return LstmState(self.hidden.to(device, dtype), self.cell.to(device, dtype))


class CarriedState:
    """State that is carried from call to call, row by row, as in the legacy programs.

    A call with fewer rows leaves the others' state as it was; one with more starts the new rows
    afresh. Nothing else in elmox keeps what it has read.
    """

    def __init__(self, fresh: Callable[[int], LstmState]) -> None:
        """`fresh` returns the start state of a number of new rows, on the model's device."""
        self._fresh = fresh
        self.reset()

    @property
    def num_rows(self) -> int:
        """Number of rows whose state is known."""
        return self._state.num_rows

    def reset(self) -> None:
        """Forget everything."""
        self._state = self._fresh(0)

    @torch.inference_mode(False)
    def start(self, rows: NDArray[np.int64]) -> LstmState:
        """Return the state from which some rows continue."""
        missing = int(rows.max(initial=-1)) + 1 - self._state.num_rows
        new = self._fresh(max(0, missing))
        here = self._state.to(new.hidden.device, new.hidden.dtype)  # the model may have moved
        self._state = here.append(new)
        return self._state.rows(self._index(rows))

    @torch.inference_mode(False)
    def keep(self, rows: NDArray[np.int64], state: LstmState) -> None:
        """Keep the state of some rows. No gradient flows back into an earlier call."""
        detached = LstmState(state.hidden.detach(), state.cell.detach())
        self._state = self._state.with_rows(self._index(rows), detached)

    def _index(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(rows).to(self._state.hidden.device)


def zero_state(
    config: LstmConfig, num_rows: int, device: torch.device, dtype: torch.dtype
) -> LstmState:
    """Return the state of rows that have read nothing yet."""
    shape = (config.num_layers, config.num_directions, num_rows)
    with torch.inference_mode(False):  # it may be kept for later calls
        return LstmState(
            torch.zeros(*shape, config.projection_dim, device=device, dtype=dtype),
            torch.zeros(*shape, config.cell_dim, device=device, dtype=dtype),
        )
