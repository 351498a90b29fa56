"""The recurrence of an LSTM layer with highway connections, in plain torch, step by step.

Rows are packed (`packing.py`), so that each step is one product on the rows that still have a word.
torch's own `nn.LSTM` is the plain version of the bidirectional LSTM.

Shapes: R rows (sequences), P words of all rows, N rows that have a word at a step, C cells. Gate
order: input, forget, output, carry, candidate.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

NUM_SIGMOIDS = 4
NUM_GATES = 5  # the candidate counted

_aten = torch.ops.aten


class Steps(Protocol):
    """All steps of a layer."""

    def forward(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """Run the steps in reading order.

        Args:
            products: (P, 6C) contiguous; the gates among them are replaced by the activated ones.
            cells, outputs: (P, C), filled here.
        """

    def backward(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """Run the backward pass.

        Args:
            products, cells: as they are after `forward`.
            d_outputs: (P, C) gradients of the outputs.
            d_products: (P, 6C), filled with the gradients of the original products.
        """


class _Step(NamedTuple):
    """One step after `forward`, or the gradients of one, where `cell` is not used."""

    gates: Tensor  # (N, 5C) activated; gradients: before activation
    past: Tensor  # (N, C) W_h x
    cell: Tensor  # (N, C)
    output: Tensor  # (N, C); not used in the backward pass


class TorchSteps:
    """A layer with highways in plain torch: about a dozen passes over memory per step."""

    def __init__(
        self, recurrent: Tensor, mask: Tensor | None, sizes: tuple[int, ...], backward: bool
    ) -> None:
        """See `dispatch.highway_recurrence`; `sizes` are those of `PackedRows`."""
        self._recurrent, self._mask = recurrent, mask
        self._sizes, self._backward = list(sizes), backward

    def forward(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """See `Steps`."""
        before, *steps = self._views(products, cells, outputs)
        for step in steps:
            _forward_step(step, before, self._recurrent, self._mask)
            before = step

    def backward(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """See `Steps`."""
        d_hidden, d_cell = (torch.zeros_like(cells[: self._sizes[0]]) for _ in range(2))
        steps = self._views(products, cells, cells)
        d_steps = self._views(d_products, cells, d_outputs)
        weights = self._recurrent, self._mask
        for number in reversed(range(1, len(steps))):
            step, before = steps[number], steps[number - 1]
            _backward_step(step, before, d_steps[number], d_hidden, d_cell, *weights)

    def _views(self, products: Tensor, cells: Tensor, outputs: Tensor) -> list[_Step]:
        """Return the steps in reading order, after an empty one."""
        num_gates = NUM_GATES * cells.shape[1]
        parts = (products[:, :num_gates], products[:, num_gates:], cells, outputs)
        views = zip(*(torch.split(part, self._sizes) for part in parts), strict=True)
        steps = [_Step(*tensors) for tensors in views]
        empty = _Step(*(part[:0] for part in parts))
        return [empty, *(reversed(steps) if self._backward else steps)]


def _forward_step(step: _Step, before: _Step, recurrent: Tensor, mask: Tensor | None) -> None:
    """Activate the gates of a step, fill its cell and output."""
    gates, past, cell, output = step
    num_sigmoids, size = NUM_SIGMOIDS * cell.shape[1], len(cell)
    known = min(size, len(before.cell))  # rows that have a state: the first ones
    gates[:known].addmm_(before.output[:known], recurrent.T)
    gates[:, :num_sigmoids].sigmoid_()
    _tanh_(gates[:, num_sigmoids:])
    enter, forget, leave, carry, candidate = gates.chunk(NUM_GATES, dim=1)
    torch.mul(enter, candidate, out=cell)
    cell[:known].addcmul_(forget[:known], before.cell[:known])
    torch.lerp(past, _tanh_(cell.clone()).mul_(leave), carry, out=output)
    if mask is not None:
        output.mul_(mask[:size])


def _backward_step(
    step: _Step,
    before: _Step,
    d_step: _Step,
    d_hidden: Tensor,
    d_cell: Tensor,
    recurrent: Tensor,
    mask: Tensor | None,
) -> None:
    """Compute the gradients of one step.

    Args:
        step: as it is after `forward`.
        before: the step read before it.
        d_step: gradients: that of the output is read, gates and past are filled.
        d_hidden: (R, C) part of the output's gradient that comes from steps read later; replaced by
            the part that this step passes on to the step before.
        d_cell: (R, C) the same for the cell.
        recurrent: (5C, C) weight.
        mask: (R, C) of dropout.
    """
    gates, past, cell, _ = step
    enter, forget, leave, carry, candidate = gates.chunk(NUM_GATES, dim=1)
    d_enter, d_forget, d_leave, d_carry, d_candidate = d_step.gates.chunk(NUM_GATES, dim=1)
    num_sigmoids, size = NUM_SIGMOIDS * cell.shape[1], len(cell)
    d_output, d_cell = d_hidden[:size].add_(d_step.output), d_cell[:size]
    if mask is not None:
        d_output.mul_(mask[:size])
    squashed = _tanh_(cell.clone())
    torch.mul(squashed, leave, out=d_carry).sub_(past).mul_(d_output)
    torch.addcmul(d_output, d_output, carry, value=-1, out=d_step.past)
    d_memory = d_output.mul_(carry)
    torch.mul(d_memory, squashed, out=d_leave)
    d_squashed = d_memory.mul_(leave)
    d_cell.add_(_aten.tanh_backward.grad_input(d_squashed, squashed, grad_input=d_squashed))
    torch.mul(d_cell, candidate, out=d_enter)
    torch.mul(d_cell, enter, out=d_candidate)
    known = min(size, len(before.cell))
    torch.mul(d_cell[:known], before.cell[:known], out=d_forget[:known])
    d_forget[known:].zero_()
    sigmoids, d_sigmoids = gates[:, :num_sigmoids], d_step.gates[:, :num_sigmoids]
    _aten.sigmoid_backward.grad_input(d_sigmoids, sigmoids, grad_input=d_sigmoids)
    _aten.tanh_backward.grad_input(d_candidate, candidate, grad_input=d_candidate)
    torch.mm(d_step.gates[:known], recurrent, out=d_hidden[:known])
    d_cell[:known].mul_(forget[:known])


def _tanh_(x: Tensor) -> Tensor:
    """Apply tanh in place, on a CPU as 2 sigmoid(2x) - 1: torch's tanh costs six times as much."""
    if x.device.type == "cpu" and x.dtype == torch.float32:
        return x.mul_(2).sigmoid_().mul_(2).sub_(1)
    return x.tanh_()
