"""The point-wise half of an LSTM step with projection, between its two products.

In plain torch, for every device and precision; `triton_pointwise.py` has the same for a GPU.

Shapes: D directions, B rows, C cells. Gate order: input, forget, output, candidate.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

_aten = torch.ops.aten


@dataclass(frozen=True)
class Step:
    """One step's cells and gates.

    Attributes:
        gates: (D, B, 4C): sums at first, activated by `Pointwise.forward`.
        cell: (D, B, C) before the step.
        new_cell: (D, B, C) after it, not clipped, since gradients depend on what was clipped.
        clip_before: bound of `cell`; infinity for none, and for a start state.
        clip: bound of `new_cell`; infinity for none.
    """

    gates: Tensor
    cell: Tensor
    new_cell: Tensor
    clip_before: float
    clip: float


class Pointwise(Protocol):
    """The forward and the backward pass of one step."""

    def forward(self, step: Step, memory: Tensor) -> None:
        """Activate the gates in place; fill `new_cell` and `memory`.

        Args:
            step: the step.
            memory: (D, B, C), filled with output gate * tanh of the clipped new cell.
        """

    def backward(
        self, step: Step, d_memory: Tensor, d_cell: Tensor, d_gates: Tensor, memory: Tensor
    ) -> None:
        """Compute the gradients of one step. They pass a bound exactly as with `torch.clamp`.

        Args:
            step: as it is after `forward`.
            d_memory: (D, B, C) gradient of the memory.
            d_cell: (D, B, C) gradient of the clipped new cell; replaced by that of the cell before.
            d_gates: (D, B, 4C), filled with the gradients before activation.
            memory: (D, B, C), filled again, for the projection's gradient.
        """


class TorchPointwise:
    """Plain torch: about a dozen passes over memory."""

    def forward(self, step: Step, memory: Tensor) -> None:
        """See `Pointwise`."""
        _activate_(step.gates)
        input_gate, forget_gate, output_gate, candidate = step.gates.chunk(4, dim=-1)
        before = clipped(step.cell, step.clip_before)
        torch.mul(before, forget_gate, out=step.new_cell).addcmul_(input_gate, candidate)
        torch.mul(_tanh(clipped(step.new_cell, step.clip)), output_gate, out=memory)

    def backward(
        self, step: Step, d_memory: Tensor, d_cell: Tensor, d_gates: Tensor, memory: Tensor
    ) -> None:
        """See `Pointwise`."""
        gates = step.gates
        input_gate, forget_gate, output_gate, candidate = gates.chunk(4, dim=-1)
        d_input, d_forget, d_output, d_candidate = d_gates.chunk(4, dim=-1)
        squashed = _tanh(clipped(step.new_cell, step.clip))
        torch.mul(squashed, output_gate, out=memory)
        through = torch.mul(d_memory, output_gate, out=torch.empty_like(d_cell))
        d_cell.add_(_aten.tanh_backward.grad_input(through, squashed, grad_input=through))
        zero_beyond_(d_cell, step.new_cell, step.clip)
        torch.mul(d_cell, candidate, out=d_input)
        torch.mul(d_cell, clipped(step.cell, step.clip_before), out=d_forget)
        torch.mul(d_memory, squashed, out=d_output)
        torch.mul(d_cell, input_gate, out=d_candidate)
        num_sigmoids = 3 * d_cell.shape[-1]
        d_sigmoids, sigmoids = d_gates[..., :num_sigmoids], gates[..., :num_sigmoids]
        _aten.sigmoid_backward.grad_input(d_sigmoids, sigmoids, grad_input=d_sigmoids)
        _aten.tanh_backward.grad_input(d_candidate, candidate, grad_input=d_candidate)
        d_cell.mul_(forget_gate)


def clipped(x: Tensor, bound: float) -> Tensor:
    """Return x clipped to -bound..bound; x itself if the bound is infinite."""
    return x if math.isinf(bound) else x.clamp(-bound, bound)


def zero_beyond_(gradient: Tensor, x: Tensor, bound: float) -> None:
    """Zero a gradient in place where |x| > bound: one pass, by hardtanh's derivative.

    That derivative is zero at its bounds already, so the bound is the next number beyond.
    """
    if not math.isinf(bound):
        edge = _beyond(bound, x.dtype)
        _aten.hardtanh_backward.grad_input(gradient, x, -edge, edge, grad_input=gradient)


@lru_cache
def _beyond(bound: float, dtype: torch.dtype) -> float:
    """Return the next number beyond a bound."""
    limit, infinity = torch.tensor([bound, math.inf], dtype=dtype)
    return torch.nextafter(limit, infinity).item()


def _activate_(gates: Tensor) -> None:
    """Activate (D, B, 4C) in place."""
    num_sigmoids = gates.shape[-1] // 4 * 3
    candidate = gates[..., num_sigmoids:]
    if _tanh_is_slow(gates):
        candidate.mul_(2)
        gates.sigmoid_()
        candidate.mul_(2).sub_(1)
    else:
        gates[..., :num_sigmoids].sigmoid_()
        candidate.tanh_()


def _tanh(x: Tensor) -> Tensor:
    if _tanh_is_slow(x):
        return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)
    return torch.tanh(x)


def _tanh_is_slow(x: Tensor) -> bool:
    """Return whether to compute tanh(x) as 2 sigmoid(2x) - 1.

    On a CPU torch's tanh costs six times its sigmoid. The rounding error is that of numbers near 1,
    which is too large in bfloat16.
    """
    return x.device.type == "cpu" and x.dtype == torch.float32
