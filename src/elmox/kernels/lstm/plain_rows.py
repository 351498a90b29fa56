"""One LSTM layer with projection and clipping over full rows, with its own backward pass.

The layer of `model/lstm.py` for training: rows are packed without padding, so all of them run all
steps. Autograd would keep a dozen tensors per step and add up the weights' gradients step by step.
Here the forward pass keeps the activated gates and the cells, and the backward pass writes the
gradients of all gates side by side, so that the weights' gradients are one product at the end.

Clipped values are kept *before* clipping, so gradients pass exactly where they pass `torch.clamp`:
within the bounds, both bounds included.

This works for every device and precision; `triton_rows.py` is for 16 bits on a GPU.

Precision: with bfloat16 inputs the products and the kept gates are bfloat16, cells and their
gradients float32. With float32 or float64 everything has that precision.

Shapes: D directions, T steps, B rows, P projection, C cells. Gate order: input, forget, output,
candidate.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.lstm.plain import LstmWeights
from elmox.kernels.lstm.plain_pointwise import Pointwise, Step, clipped, zero_beyond_
from elmox.kernels.torch_modes import autocast_off


class _Kept(NamedTuple):
    """Tensors of the forward pass for the backward pass. Cells and outputs are not clipped."""

    gates: Tensor  # (D, T, B, 4C), activated
    cells: Tensor  # (D, T, B, C)
    outputs: Tensor  # (D, T, B, P)


class _Gradients(NamedTuple):
    """The results of the backward pass through time."""

    outputs: Tensor  # (D, T, B, P), before clipping
    gates: Tensor  # (D, T, B, 4C), before activation
    hidden: Tensor  # (D, B, P), of the start state
    cell: Tensor  # (D, B, C), of the start state
    memory: Tensor  # (D, T, B, C), not a gradient: the input of the projection


class PlainRows(torch.autograd.Function):
    """The arguments of `dispatch.lstm_rows`, then the point-wise half of a step."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, *rest: Any) -> Any:
        *arguments, pointwise = rest
        weights = LstmWeights(*arguments)
        *tensors, cell_clip, proj_clip = arguments
        kept, last_hidden, last_cell = _run_forward(inputs, hidden, cell, weights, pointwise)
        ctx.save_for_backward(inputs, hidden, cell, *tensors, *kept)
        ctx.clips, ctx.pointwise = (cell_clip, proj_clip), pointwise
        ctx.set_materialize_grads(False)
        return clipped(kept.outputs, _bound(proj_clip)), last_hidden, last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        with autocast_off(ctx.saved_tensors[0].device):  # callers may leave it on
            return PlainRows._backward(ctx, *grads)

    @staticmethod
    def _backward(ctx: Any, *grads: Tensor | None) -> Any:
        inputs, hidden, cell, *rest = ctx.saved_tensors
        weights, kept = LstmWeights(*rest[:4], *ctx.clips), _Kept(*rest[4:])
        gradients = _run_backward(kept, cell, weights, grads, ctx.pointwise)
        d_gates = gradients.gates.flatten(1, 2)  # (D, T*B, 4C)
        d_inputs = d_input_weight = d_recurrent_weight = d_bias = d_projection = None
        needed = ctx.needs_input_grad
        if needed[0]:
            d_inputs = torch.bmm(d_gates, weights.input_weight).view_as(inputs)
        if needed[3] or needed[4]:
            earlier = clipped(kept.outputs[:, :-1], _bound(weights.proj_clip))
            before = torch.cat([hidden.unsqueeze(1), earlier], dim=1)
            step_inputs = torch.cat([inputs, before], dim=-1).flatten(1, 2)  # (D, T*B, P_in + P)
            d_both = torch.bmm(d_gates.transpose(1, 2), step_inputs)
            d_input_weight = d_both[..., : inputs.shape[-1]]
            d_recurrent_weight = d_both[..., inputs.shape[-1] :]
        if needed[5]:  # a product with ones: several times faster on a CPU than a sum
            ones = d_gates.new_ones(1, 1, 1).expand(len(d_gates), 1, d_gates.shape[1])
            d_bias = torch.bmm(ones, d_gates).squeeze(1)
        if needed[6]:
            d_outputs = gradients.outputs.flatten(1, 2)
            d_projection = torch.bmm(d_outputs.transpose(1, 2), gradients.memory.flatten(1, 2))
        d_weights = d_input_weight, d_recurrent_weight, d_bias, d_projection
        return d_inputs, gradients.hidden, gradients.cell, *d_weights, None, None, None


def _run_forward(
    inputs: Tensor, hidden: Tensor, cell: Tensor, w: LstmWeights, pointwise: Pointwise
) -> tuple[_Kept, Tensor, Tensor]:
    """Return the tensors to keep, and the state after the last step."""
    shape, num_cells = inputs.shape[:3], cell.shape[2]
    products = torch.baddbmm(
        w.bias.unsqueeze(1), inputs.flatten(1, 2), w.input_weight.transpose(1, 2)
    )
    kept = _Kept(
        gates=products.view(*shape, 4 * num_cells),
        cells=cell.new_empty(*shape, num_cells),
        outputs=inputs.new_empty(*shape, hidden.shape[2]),
    )
    recurrent = w.recurrent_weight.transpose(1, 2)
    outward = None if w.projection is None else w.projection.transpose(1, 2)
    memory = inputs.new_empty(cell.shape)
    for t, step in enumerate(_steps(kept, cell, w)):
        step.gates.baddbmm_(hidden, recurrent)
        pointwise.forward(step, memory)
        new_hidden = kept.outputs[:, t]
        if outward is None:
            new_hidden.copy_(memory)
        else:
            torch.bmm(memory, outward, out=new_hidden)
        hidden = clipped(new_hidden, _bound(w.proj_clip))
    return kept, hidden.clone(), clipped(kept.cells[:, -1], _bound(w.cell_clip)).clone()


def _run_backward(
    kept: _Kept,
    cell: Tensor,
    w: LstmWeights,
    grads: tuple[Tensor | None, ...],
    pointwise: Pointwise,
) -> _Gradients:
    """Run the backward pass through time, from the last step to the first.

    Args:
        kept: from the forward pass.
        cell: the start state.
        w: the weights.
        grads: gradients of outputs, last hidden and last cell state; None for zeros.
        pointwise: the point-wise half of a step.
    """
    d_outputs, d_hidden, d_cell = grads
    d_outputs = torch.zeros_like(kept.outputs) if d_outputs is None else d_outputs.clone()
    d_hidden = d_outputs.new_zeros(()) if d_hidden is None else d_hidden
    d_cell = torch.zeros_like(cell) if d_cell is None else d_cell.clone()
    d_gates = torch.empty_like(kept.gates)
    memory = kept.gates.new_empty(kept.cells.shape)
    for t, step in reversed(list(enumerate(_steps(kept, cell, w)))):
        d_step = d_outputs[:, t].add_(d_hidden)
        zero_beyond_(d_step, kept.outputs[:, t], _bound(w.proj_clip))
        d_memory = d_step if w.projection is None else torch.bmm(d_step, w.projection)
        pointwise.backward(step, d_memory, d_cell, d_gates[:, t], memory[:, t])
        d_hidden = torch.bmm(d_gates[:, t], w.recurrent_weight)
    return _Gradients(d_outputs, d_gates, d_hidden, d_cell, memory)


def _steps(kept: _Kept, cell: Tensor, w: LstmWeights) -> Iterator[Step]:
    """Yield the steps in order. The start state is not clipped."""
    clip, clip_before = _bound(w.cell_clip), math.inf
    for gates, new_cell in zip(kept.gates.unbind(1), kept.cells.unbind(1), strict=True):
        yield Step(gates, cell, new_cell, clip_before, clip)
        cell, clip_before = new_cell, clip


def _bound(clip: float | None) -> float:
    return math.inf if clip is None else clip
