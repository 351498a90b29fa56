"""One LSTM layer with projection and clipping over time-major ragged rows, for inference.

The layer of `model/lstm.py` without padding and almost without temporary memory. The input product
of a window of steps is one product. A step is one product and a few in-place passes over all gates
of both directions. Rows that have ended cost nothing.

Shapes: D directions, N tokens in time-major order, B rows, P projection, C cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class LstmWeights:
    """The weights of one layer, all directions; gates in the order input, forget, output,
    candidate."""

    input_weight: Tensor  # (D, 4C, P_in)
    recurrent_weight: Tensor  # (D, 4C, P)
    bias: Tensor  # (D, 4C), forget bias included
    projection: Tensor | None  # (D, P, C); None where the cells are the output
    cell_clip: float | None
    proj_clip: float | None


class LstmKernel(Protocol):
    """One layer, ready to run."""

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """Run a window of time steps.

        Args:
            inputs: (D, N, P_in), N = sum(step_sizes).
            step_sizes: number of rows that have a token at each step; never rising.
            hidden: (D, B, P) state before the window; replaced by the state after it.
            cell: (D, B, C) likewise.

        Returns:
            (D, N, P) outputs.
        """


class BatchedLstm:
    """Both directions in one batched product: for every device and precision."""

    def __init__(self, weights: LstmWeights) -> None:
        self.weights = weights

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """See `LstmKernel`."""
        w = self.weights
        num_directions, num_cells = inputs.shape[0], cell.shape[2]
        recurrent = w.recurrent_weight.transpose(1, 2)
        outward = None if w.projection is None else w.projection.transpose(1, 2)
        products = torch.baddbmm(w.bias.unsqueeze(1), inputs, w.input_weight.transpose(1, 2))
        outputs = inputs.new_empty(*inputs.shape[:2], hidden.shape[2])
        # One buffer for the gates of every step: batched products need contiguous memory.
        buffer = inputs.new_empty(num_directions * step_sizes[0] * 4 * num_cells)
        previous = hidden
        start = 0
        for size in step_sizes:
            stop = start + size
            gates = buffer[: num_directions * size * 4 * num_cells].view(num_directions, size, -1)
            torch.baddbmm(products[:, start:stop], previous[:, :size], recurrent, out=gates)
            gates[..., : 3 * num_cells].sigmoid_()
            candidate = gates[..., 3 * num_cells :].tanh_()
            input_gate, forget_gate, output_gate, _ = gates.chunk(4, dim=-1)
            active = cell[:, :size]
            active.mul_(forget_gate).addcmul_(input_gate, candidate)
            if w.cell_clip is not None:
                active.clamp_(-w.cell_clip, w.cell_clip)
            memory = torch.tanh(active).mul_(output_gate)
            step = outputs[:, start:stop]
            if outward is None:
                step.copy_(memory)
            elif w.proj_clip is None:
                step.copy_(torch.bmm(memory, outward))
            else:
                torch.clamp(torch.bmm(memory, outward), -w.proj_clip, w.proj_clip, out=step)
            hidden[:, :size] = step
            previous = step
            start = stop
        return outputs
