"""The LSTM layer of `plain.py` on packed weights: the fast one on a CPU.

On a CPU torch's tanh costs four times its sigmoid, and tanh(x) = 2 sigmoid(2x) - 1. So the
candidate's weights are packed doubled, and one sigmoid activates all four gates. Cells are kept
doubled, and the missing factor of their tanh is packed into the projection. Doubling is exact in
binary, so at most the last bit changes.

Shapes: N tokens in time-major order, U distinct words, D directions, B rows, P projection, C cells.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from elmox.kernels.linear.cpu_half import can_halve, max_half_rows
from elmox.kernels.linear.cpu_packed import rounded_rows
from elmox.kernels.linear.dispatch import (
    FloatLinear,
    Int8OrFloatLinear,
    Linear,
    LinearByRows,
    max_float_rows,
)
from elmox.kernels.lstm.cpu_single import SingleLstm
from elmox.kernels.lstm.plain import LstmWeights

MAX_TABLE_BYTES = 2**28
MIN_TABLE_INPUT = 256  # at 512 a table makes the layers 8% faster, at 128 3% slower


def _outputs(step_sizes: Sequence[int], hidden: Tensor) -> Tensor:
    """Return an empty (D, N', P), long enough for rows that are rounded up at every step."""
    starts = itertools.accumulate(step_sizes, initial=0)
    room = max(start + rounded_rows(n) for start, n in zip(starts, step_sizes, strict=False))
    return hidden.new_empty(hidden.shape[0], room, hidden.shape[2])


class _Direction:
    """One direction of a layer, packed."""

    def __init__(
        self,
        weights: LstmWeights,
        direction: int,
        linear: Callable[[Callable[[], Tensor]], LinearByRows],
    ) -> None:
        self._num_cells = weights.bias.shape[1] // 4
        self._cell_clip, self._proj_clip = weights.cell_clip, weights.proj_clip
        self._input = linear(lambda: self._doubled(weights.input_weight[direction]))
        self._recurrent = linear(lambda: self._doubled(weights.recurrent_weight[direction]))
        self._bias = self._doubled(weights.bias[direction])
        projection = weights.projection
        self._project = None if projection is None else linear(lambda: 2 * projection[direction])

    def products(self, inputs: Tensor, room: int) -> Tensor:
        """Return the inputs' part of the gates: (n, P_in) -> (at least room, 4C)."""
        return self._input(F.pad(inputs, (0, 0, 0, rounded_rows(room) - len(inputs))), self._bias)

    def run(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor, out: Tensor
    ) -> None:
        """Run a window of inputs (N, P_in); see `_run` for the other arguments."""
        products = self.products(inputs, len(out))
        self._run(lambda first, last: products[first:last], step_sizes, hidden, cell, out)

    def run_words(
        self,
        table: Tensor,
        words: Tensor,
        step_sizes: Sequence[int],
        hidden: Tensor,
        cell: Tensor,
        out: Tensor,
    ) -> None:
        """Run a window of words (N,) whose products are in `table` (U, 4C)."""
        words = F.pad(words, (0, len(out) - len(words)))
        self._run(
            lambda first, last: table.index_select(0, words[first:last]),
            *(step_sizes, hidden, cell, out),
        )

    def _run(
        self,
        products: Callable[[int, int], Tensor],
        step_sizes: Sequence[int],
        hidden: Tensor,
        cell: Tensor,
        out: Tensor,
    ) -> None:
        """Run a window: hidden (B, P) and cell (B, C) are replaced, out (N', P) is filled.

        Rows are rounded up at each step and the additional results are discarded; N' leaves room
        for them.
        """
        room = rounded_rows(len(hidden))
        # By the rows of the window: the last steps of a batch must not pack all weights again.
        recurrent = self._recurrent.for_rows(room)
        project = None if self._project is None else self._project.for_rows(room)
        previous = F.pad(hidden, (0, 0, 0, room - len(hidden)))
        memory = cell.new_zeros(room, self._num_cells)
        cell.mul_(2)
        start = 0
        for size, steps in itertools.groupby(step_sizes):
            rows = rounded_rows(size)
            active, active_memory, padded_memory = cell[:size], memory[:size], memory[:rows]
            previous = previous[:rows]
            for _ in steps:
                gates = recurrent.plus(previous, products(start, start + rows))
                self._update_cell(gates if rows == size else gates[:size], active, active_memory)
                step = out[start : start + size]
                self._output(project, padded_memory, step)
                previous = step if rows == size else out[start : start + rows]
                start += size
            hidden[:size] = previous[:size]
        cell.mul_(0.5)

    def _update_cell(self, gates: Tensor, cell: Tensor, memory: Tensor) -> None:
        """Compute the new doubled cells in place, and half of o * tanh(c) into `memory`."""
        input_gate, forget_gate, output_gate, candidate = gates.sigmoid_().chunk(4, dim=1)
        # 2c is 2 f*c + 2 i*(2s - 1), where s is the sigmoid of the doubled candidate
        cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4).sub_(input_gate, alpha=2)
        if self._cell_clip is not None:
            cell.clamp_(-2 * self._cell_clip, 2 * self._cell_clip)
        torch.sigmoid(cell, out=memory).sub_(0.5).mul_(output_gate)

    def _output(self, project: Linear | None, memory: Tensor, step: Tensor) -> None:
        """Compute the output of a step."""
        rows = step.shape[0]
        if project is None:
            torch.mul(memory[:rows], 2, out=step)
            return
        projected = project(memory)
        if projected.shape[0] != rows:
            projected = projected[:rows]
        if self._proj_clip is None:
            step.copy_(projected)
        else:
            torch.clamp(projected, -self._proj_clip, self._proj_clip, out=step)

    def _doubled(self, rows: Tensor) -> Tensor:
        """Return a copy with the candidate's rows, the last quarter, times two."""
        doubled = rows.clone()
        doubled[3 * self._num_cells :] *= 2
        return doubled


class PackedLstm:
    """All directions of a layer, one after the other."""

    def __init__(self, weights: LstmWeights, int8: bool = False) -> None:
        """Args:
        weights: one layer.
        int8: compute large products in 8-bit integers.
        """
        self._weights = weights
        self._int8 = int8
        linear = Int8OrFloatLinear if int8 else FloatLinear
        self._directions = [_Direction(weights, d, linear) for d in range(len(weights.bias))]
        self._single: SingleLstm | None = None

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """See `LstmKernel`."""
        if hidden.shape[1] == 1 and self._single_is_fastest():
            return self._run_single(inputs, hidden, cell)
        outputs = _outputs(step_sizes, hidden)
        for d, direction in enumerate(self._directions):
            direction.run(inputs[d], step_sizes, hidden[d], cell[d], outputs[d])
        return outputs[:, : inputs.shape[1]]

    def for_words(self, vectors: Tensor, num_tokens: int, num_rows: int) -> "WordLstm | None":
        """Return the layer for a text of distinct words, where that saves time.

        Loading a row of its table from memory takes as long as a short or an 8-bit product.

        Args:
            vectors: (U, P_in) of the words.
            num_tokens: number of tokens of the text.
            num_rows: number of its sentences.

        Returns:
            None for one sentence, short vectors, words that hardly repeat, or too many words.
        """
        num_bytes = 4 * self._weights.bias.numel() * len(vectors)
        long = not self._int8 and vectors.shape[1] >= MIN_TABLE_INPUT
        repeats = 4 * len(vectors) <= 3 * num_tokens
        if num_rows == 1 or not long or not repeats or num_bytes > MAX_TABLE_BYTES:
            return None
        return WordLstm(self._directions, vectors)

    def _single_is_fastest(self) -> bool:
        """Return whether `SingleLstm` is the fastest for one row."""
        if self._int8 and not max_float_rows(self._weights.recurrent_weight[0]):
            return False
        return not (max_half_rows() and self._can_halve)

    @cached_property
    def _can_halve(self) -> bool:
        return can_halve(self._weights.recurrent_weight)

    def _run_single(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        if self._single is None:  # it copies weights, which only single sentences need
            self._single = SingleLstm(self._weights)
        num_tokens = inputs.shape[1]
        products = [
            direction.products(vectors, num_tokens)[:num_tokens]
            for direction, vectors in zip(self._directions, inputs, strict=True)
        ]
        return self._single(torch.stack(products, dim=1).unsqueeze(2), hidden, cell)


class WordLstm:
    """A layer with words as inputs: their part of the gates is computed once per word."""

    def __init__(self, directions: Sequence[_Direction], vectors: Tensor) -> None:
        self._directions = directions
        self._tables = [one.products(vectors, len(vectors)) for one in directions]  # (U', 4C)

    def __call__(
        self, words: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """See `LstmKernel`; words (D, N) instead of inputs."""
        outputs = _outputs(step_sizes, hidden)
        for d, (direction, table) in enumerate(zip(self._directions, self._tables, strict=True)):
            direction.run_words(table, words[d], step_sizes, hidden[d], cell[d], outputs[d])
        return outputs[:, : words.shape[1]]
