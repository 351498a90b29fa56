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
    """A layer's way through time."""

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """The way there.

        Args:
            products: (P, 6C) contiguous; the gates among them are replaced by the activated ones.
            cells, outputs: (P, C), to be filled.
        """

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """The way back.

        Args:
            products, cells: as they were after `read`.
            d_outputs: (P, C) gradients of the outputs.
            d_products: (P, 6C), to be filled: gradients of the products as they were given.
        """


class _Step(NamedTuple):
    """A step as it was read, or the gradients of one, where `cell` is not used."""

    gates: Tensor  # (N, 5C) activated; gradients: before activation
    past: Tensor  # (N, C) W_h x
    cell: Tensor  # (N, C)
    output: Tensor  # (N, C); not used on the way back


class TorchSteps:
    """A dozen passes over memory for each step, and half as many again on the way back."""

    def __init__(
        self, recurrent: Tensor, mask: Tensor | None, sizes: tuple[int, ...], backward: bool
    ) -> None:
        """See `dispatch.py`."""
        self._recurrent, self._mask = recurrent, mask
        self._sizes, self._backward = list(sizes), backward

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """See `Steps`."""
        before, *steps = self._views(products, cells, outputs)
        for step in steps:
            _read(step, before, self._recurrent, self._mask)
            before = step

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """See `Steps`."""
        d_hidden, d_cell = (torch.zeros_like(cells[: self._sizes[0]]) for _ in range(2))
        steps = self._views(products, cells, cells)
        d_steps = self._views(d_products, cells, d_outputs)
        for number in reversed(range(1, len(steps))):
            step, before = steps[number], steps[number - 1]
            _go_back(step, before, d_steps[number], d_hidden, d_cell, self._recurrent, self._mask)

    def _views(self, products: Tensor, cells: Tensor, outputs: Tensor) -> list[_Step]:
        """The steps in the order in which they are read, after one of no rows at all."""
        num_gates = NUM_GATES * cells.shape[1]
        parts = (products[:, :num_gates], products[:, num_gates:], cells, outputs)
        views = zip(*(torch.split(part, self._sizes) for part in parts), strict=True)
        steps = [_Step(*own) for own in views]
        nothing = _Step(*(part[:0] for part in parts))
        return [nothing, *(reversed(steps) if self._backward else steps)]


def _read(step: _Step, before: _Step, recurrent: Tensor, mask: Tensor | None) -> None:
    """One step: activates the gates, fills cell and output."""
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


def _go_back(
    step: _Step,
    before: _Step,
    d_step: _Step,
    d_hidden: Tensor,
    d_cell: Tensor,
    recurrent: Tensor,
    mask: Tensor | None,
) -> None:
    """One step of the way back.

    Args:
        step: as it was read.
        before: the one that was read before it.
        d_step: gradients: that of the output is given, gates and past are filled.
        d_hidden: (R, C) what the steps read later add to the output's gradient; replaced by what
            this one adds to that of the step before.
        d_cell: (R, C) the same for the cell.
        recurrent: the weight.
        mask: (R, C) of dropout.
    """
    gates, past, cell, _ = step
    enter, forget, leave, carry, candidate = gates.chunk(NUM_GATES, dim=1)
    d_enter, d_forget, d_leave, d_carry, d_candidate = d_step.gates.chunk(NUM_GATES, dim=1)
    num_sigmoids, size = NUM_SIGMOIDS * cell.shape[1], len(cell)
    d_output, d_own = d_hidden[:size].add_(d_step.output), d_cell[:size]
    if mask is not None:
        d_output.mul_(mask[:size])
    squashed = _tanh_(cell.clone())
    torch.mul(squashed, leave, out=d_carry).sub_(past).mul_(d_output)
    torch.addcmul(d_output, d_output, carry, value=-1, out=d_step.past)
    d_memory = d_output.mul_(carry)
    torch.mul(d_memory, squashed, out=d_leave)
    d_squashed = d_memory.mul_(leave)
    d_own.add_(_aten.tanh_backward.grad_input(d_squashed, squashed, grad_input=d_squashed))
    torch.mul(d_own, candidate, out=d_enter)
    torch.mul(d_own, enter, out=d_candidate)
    known = min(size, len(before.cell))
    torch.mul(d_own[:known], before.cell[:known], out=d_forget[:known])
    d_forget[known:].zero_()
    sigmoids, d_sigmoids = gates[:, :num_sigmoids], d_step.gates[:, :num_sigmoids]
    _aten.sigmoid_backward.grad_input(d_sigmoids, sigmoids, grad_input=d_sigmoids)
    _aten.tanh_backward.grad_input(d_candidate, candidate, grad_input=d_candidate)
    torch.mm(d_step.gates[:known], recurrent, out=d_hidden[:known])
    d_own[:known].mul_(forget[:known])


def _tanh_(x: Tensor) -> Tensor:
    """In place. On a CPU torch's tanh costs six times its sigmoid: tanh(x) = 2 sigmoid(2x) - 1."""
    if x.device.type == "cpu" and x.dtype == torch.float32:
        return x.mul_(2).sigmoid_().mul_(2).sub_(1)
    return x.tanh_()
