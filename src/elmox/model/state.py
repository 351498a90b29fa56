"""The LSTMs' state as an explicit value: what a row remembers between calls.

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


class CarriedState:
    """State that runs on from call to call, row by row, as the legacy programs had it.

    A call with fewer rows leaves the others' state as it was; one with more starts the new rows
    afresh. This is the one place where elmox remembers what it has read.
    """

    def __init__(self, fresh: Callable[[int], LstmState]) -> None:
        """`fresh` gives the state in which that many new rows start, where the model now is."""
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
        """The state in which some rows go on."""
        missing = int(rows.max(initial=-1)) + 1 - self._state.num_rows
        new = self._fresh(max(0, missing))
        here = self._state.to(new.hidden.device, new.hidden.dtype)  # the model may have moved
        self._state = here.append(new)
        return self._state.rows(self._index(rows))

    @torch.inference_mode(False)
    def keep(self, rows: NDArray[np.int64], state: LstmState) -> None:
        """Remember where some rows are now. No gradient flows back into an earlier call."""
        detached = LstmState(state.hidden.detach(), state.cell.detach())
        self._state = self._state.with_rows(self._index(rows), detached)

    def _index(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(rows).to(self._state.hidden.device)


def zero_state(
    config: LstmConfig, num_rows: int, device: torch.device, dtype: torch.dtype
) -> LstmState:
    """The state of rows that have read nothing yet."""
    shape = (config.num_layers, config.num_directions, num_rows)
    with torch.inference_mode(False):  # it may be kept for later calls
        return LstmState(
            torch.zeros(*shape, config.projection_dim, device=device, dtype=dtype),
            torch.zeros(*shape, config.cell_dim, device=device, dtype=dtype),
        )
