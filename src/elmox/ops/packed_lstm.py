"""The LSTM layer of `ops/lstm.py` on packed weights: the fast one on a CPU.

torch's tanh costs a CPU four times its sigmoid, and tanh(x) = 2 sigmoid(2x) - 1. So the candidate's
weights are packed doubled and one sigmoid serves all four gates; for the cell's tanh the factor 2
is packed into the projection. Doubling is exact in binary, so this changes the last bit at most.

Shapes: N tokens in time-major order, B rows, P projection, C cells; one direction at a time.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmox.ops.lstm import LstmWeights
from elmox.ops.packed_linear import PackedLinear


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
        products = self._input(inputs, self._bias)
        previous = hidden
        start = 0
        for size in step_sizes:
            stop = start + size
            gates = self._recurrent.plus(previous[:size], products[start:stop]).sigmoid_()
            input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=1)
            alive = cell[:size]
            # f*c + i*(2s - 1), where s is the sigmoid of the doubled candidate
            alive.mul_(forget_gate).addcmul_(input_gate, candidate, value=2).sub_(input_gate)
            if self._cell_clip is not None:
                alive.clamp_(-self._cell_clip, self._cell_clip)
            half = torch.mul(alive, 2).sigmoid_().sub_(0.5).mul_(output_gate)  # o * tanh(c) / 2
            step = out[start:stop]
            if self._project is None:
                torch.mul(half, 2, out=step)
            elif self._proj_clip is None:
                step.copy_(self._project(half))
            else:
                torch.clamp(self._project(half), -self._proj_clip, self._proj_clip, out=step)
            hidden[:size] = step
            previous = step
            start = stop

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
