"""The LSTM layer of `ops/lstm.py` on packed weights: the fast one on a CPU.

torch's tanh costs a CPU four times its sigmoid, and tanh(x) = 2 sigmoid(2x) - 1. So the candidate's
weights are packed doubled and one sigmoid serves all four gates; for the cell's tanh the factor 2
is packed into the projection. Doubling is exact in binary, so this changes the last bit at most.

Shapes: N tokens in time-major order, B rows, P projection, C cells; one direction at a time.
"""

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from elmox.ops.lstm import LstmWeights
from elmox.ops.packed_linear import PackedLinear


def rounded_rows(rows: int) -> int:
    """How many rows to compute for `rows`: a few more, so that few different numbers occur.

    oneDNN compiles code for every shape that it meets and keeps a thousand of them, which costs
    hundreds of megabytes and the time to compile them; text has batches of every size.
    """
    step = 1 if rows <= 16 else 4 if rows <= 64 else 8 if rows <= 256 else 16 if rows <= 512 else 64
    return -(-rows // step) * step


class _Direction:
    """One direction of a layer, packed."""

    def __init__(self, weights: LstmWeights, direction: int) -> None:
        self._num_cells = weights.bias.shape[1] // 4
        self._cell_clip, self._proj_clip = weights.cell_clip, weights.proj_clip
        self._input = PackedLinear(self._doubled(weights.input_weight[direction]))
        self._recurrent = PackedLinear(self._doubled(weights.recurrent_weight[direction]))
        self._bias = self._doubled(weights.bias[direction])
        projection = weights.projection
        self._project = None if projection is None else PackedLinear(2 * projection[direction])

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor, out: Tensor
    ) -> None:
        """Read a window: inputs (N, P_in), hidden (B, P) and cell (B, C) replaced, out (N, P)."""
        num_rows, room = len(hidden), rounded_rows(len(hidden))
        # Rows beyond those alive are computed and thrown away, so there must be some to read.
        starts = itertools.accumulate(step_sizes, initial=0)
        last = max(
            start + rounded_rows(size) for start, size in zip(starts, step_sizes, strict=False)
        )
        padded = F.pad(inputs, (0, 0, 0, rounded_rows(last) - len(inputs)))
        products = self._input(padded, self._bias)
        previous = F.pad(hidden, (0, 0, 0, room - num_rows))
        halves = cell.new_zeros(room, self._num_cells)
        start = 0
        for size in step_sizes:
            rows = rounded_rows(size)
            gates = self._recurrent.plus(previous[:rows], products[start : start + rows])[:size]
            input_gate, forget_gate, output_gate, candidate = gates.sigmoid_().chunk(4, dim=1)
            alive = cell[:size]
            # f*c + i*(2s - 1), where s is the sigmoid of the doubled candidate
            alive.mul_(forget_gate).addcmul_(input_gate, candidate, value=2).sub_(input_gate)
            if self._cell_clip is not None:
                alive.clamp_(-self._cell_clip, self._cell_clip)
            half = torch.mul(alive, 2, out=halves[:size]).sigmoid_()
            half.sub_(0.5).mul_(output_gate)  # o * tanh(c) / 2
            step = out[start : start + size]
            if self._project is None:
                torch.mul(half, 2, out=step)
            elif self._proj_clip is None:
                step.copy_(self._project(halves[:rows])[:size])
            else:
                projected = self._project(halves[:rows])[:size]
                torch.clamp(projected, -self._proj_clip, self._proj_clip, out=step)
            previous[:size] = step
            start += size
        hidden.copy_(previous[:num_rows])

    def _doubled(self, rows: Tensor) -> Tensor:
        """The candidate's rows, the last quarter, times two."""
        doubled = rows.clone()
        doubled[3 * self._num_cells :] *= 2
        return doubled


class PackedLstm:
    """All directions of a layer, one after the other."""

    def __init__(self, weights: LstmWeights) -> None:
        self._directions = [_Direction(weights, d) for d in range(len(weights.bias))]

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """See `LstmKernel`."""
        outputs = inputs.new_empty(*inputs.shape[:2], hidden.shape[2])
        for d, direction in enumerate(self._directions):
            direction(inputs[d], step_sizes, hidden[d], cell[d], outputs[d])
        return outputs
