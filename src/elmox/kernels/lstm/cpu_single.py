"""The LSTM layer of `plain.py` for one row on a CPU: one sentence at a time.

The speed of a product of one row is that of loading its weights, and the other calls of torch cost
more than their work. So both directions share each call, results go into preallocated memory, and
the recurrent weight is stored as (P, 4C), with which one row is multiplied nearly twice as fast as
with (4C, P). `cpu_packed.py` explains the doubled weights and cells.

Shapes: D directions, N tokens, P projection, C cells.
"""

import torch
from torch import Tensor

from elmox.kernels.lstm.plain import LstmWeights


class SingleLstm:
    """All directions of a layer, for one row each."""

    def __init__(self, weights: LstmWeights) -> None:
        num_cells = weights.bias.shape[1] // 4
        recurrent = weights.recurrent_weight.transpose(1, 2)  # (D, P, 4C)
        # Always a copy: contiguous() makes none if P is 1.
        self._recurrent = recurrent.clone(memory_format=torch.contiguous_format)
        self._recurrent[:, :, 3 * num_cells :] *= 2
        self._projection = weights.projection
        self._cell_clip, self._proj_clip = weights.cell_clip, weights.proj_clip

    def __call__(self, products: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """Run a window.

        Args:
            products: (N, D, 1, 4C), the inputs' part of the gates, the candidate's doubled.
            hidden: (D, 1, P) state before the window; replaced by the state after it.
            cell: (D, 1, C) likewise.

        Returns:
            (D, N, P) outputs.
        """
        gates, memory = torch.empty_like(products[0]), torch.empty_like(cell)
        input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=2)
        outward = None if self._projection is None else self._projection.transpose(1, 2)
        outputs = hidden.new_empty(len(products), *hidden.shape)
        cell.mul_(2)
        previous = hidden
        for product, step in zip(products.unbind(), outputs.unbind(), strict=True):
            torch.baddbmm(product, previous, self._recurrent, out=gates).sigmoid_()
            cell.mul_(forget_gate).addcmul_(input_gate, candidate, value=4)
            cell.sub_(input_gate, alpha=2)
            if self._cell_clip is not None:
                cell.clamp_(-2 * self._cell_clip, 2 * self._cell_clip)
            torch.sigmoid(cell, out=memory).sub_(0.5).mul_(output_gate)  # half of o * tanh(c)
            if outward is None:
                torch.mul(memory, 2, out=step)
            else:
                torch.baddbmm(step, memory, outward, beta=0, alpha=2, out=step)
                if self._proj_clip is not None:
                    step.clamp_(-self._proj_clip, self._proj_clip)
            previous = step
        hidden.copy_(previous)
        cell.mul_(0.5)
        return outputs.squeeze(2).transpose(0, 1)
