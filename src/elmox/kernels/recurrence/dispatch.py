"""The recurrences of task networks, by plain torch or by Triton kernels.

Two kinds: one direction of an LSTM with highway connections, and torch's bidirectional LSTM. Where
Triton cannot run, the first is a loop in `plain.py` and the second is torch's own `nn.LSTM`, whose
cuDNN kernels are launched step by step. A Triton kernel runs all steps in one launch.

Shapes: R rows, P words of all rows, W numbers per word, C cells.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from elmox.kernels.availability import why_not_triton
from elmox.kernels.recurrence.packing import PackedRows
from elmox.kernels.recurrence.plain import Steps, TorchSteps


def highway_recurrence(
    products: Tensor, recurrent: Tensor, mask: Tensor | None, rows: PackedRows, backward: bool
) -> Tensor:
    """Run a layer with highway connections over packed rows.

    Args:
        products: (P, 6C) products of the inputs: of the five gates and of the highway.
        recurrent: (5C, C) weight of the hidden state.
        mask: (R, C) dropout mask, one for all steps of a row; None for no dropout.
        rows: how the words are packed.
        backward: read from right to left.

    Returns:
        (P, C) outputs.
    """
    arguments = (products, recurrent, mask, *rows, backward)
    outputs: Tensor = _HighwayRecurrence.apply(*arguments)  # type: ignore[no-untyped-call]
    return outputs


def read_rows(rnn: nn.LSTM | nn.GRU, words: Tensor, rows: PackedRows) -> Tensor:
    """Run an RNN of one layer over packed rows: (P, W) -> (P, directions * C)."""
    assert (rnn.num_layers, rnn.bias, rnn.proj_size) == (1, True, 0)
    if isinstance(rnn, nn.LSTM) and rnn.bidirectional and why_not_triton(words) is None:
        return _bidirectional_lstm(rnn, words, rows)
    outputs: Tensor = rnn(PackedSequence(words, torch.tensor(rows.sizes)))[0].data
    return outputs


def _bidirectional_lstm(lstm: nn.LSTM, words: Tensor, rows: PackedRows) -> Tensor:
    def both(name: str) -> list[Tensor]:
        return [getattr(lstm, f"{name}_l0"), getattr(lstm, f"{name}_l0_reverse")]

    bias = torch.cat(both("bias_ih")) + torch.cat(both("bias_hh"))
    products = F.linear(words, torch.cat(both("weight_ih")), bias)
    arguments = (products, *both("weight_hh"), *rows)
    outputs: Tensor = _BidirectionalRecurrence.apply(*arguments)  # type: ignore[no-untyped-call]
    return outputs


def _highway_steps(
    recurrent: Tensor,
    mask: Tensor | None,
    sizes: tuple[int, ...],
    starts: Tensor,
    backward: bool,
) -> Steps:
    """Return the fastest steps for a layer's packed rows; see `highway_recurrence`."""
    if why_not_triton(recurrent) is not None:
        return TorchSteps(recurrent, mask, sizes, backward)
    from elmox.kernels.recurrence.triton_kernels import TritonRecurrence

    return TritonRecurrence(
        recurrent[None], starts, sizes[0], backward=backward, highway=True, mask=mask
    )


class _HighwayRecurrence(torch.autograd.Function):
    """Products (P, 6C) and a recurrent weight (5C, C) to outputs (P, C)."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,
        recurrent: Tensor,
        mask: Tensor | None,
        sizes: tuple[int, ...],
        starts: Tensor,
        earlier: Tensor,
        backward: bool,
    ) -> Tensor:
        kept = products.clone(memory_format=torch.contiguous_format)
        cells, outputs = (products.new_empty(len(products), recurrent.shape[1]) for _ in range(2))
        _highway_steps(recurrent, mask, sizes, starts, backward).forward(kept, cells, outputs)
        ctx.save_for_backward(kept, cells, outputs, recurrent, mask, starts, earlier)
        ctx.sizes, ctx.is_backward = sizes, backward
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Any:
        kept, cells, outputs, recurrent, mask, starts, earlier = ctx.saved_tensors
        num_rows = ctx.sizes[0]
        d_products = torch.empty_like(kept)
        steps = _highway_steps(recurrent, mask, ctx.sizes, starts, ctx.is_backward)
        steps.backward(kept, cells, d_outputs, d_products)
        d_gates = d_products[:, : len(recurrent)]
        if ctx.is_backward:
            d_recurrent = d_gates[earlier].T @ outputs[num_rows:]
        else:
            d_recurrent = d_gates[num_rows:].T @ outputs[earlier]
        return d_products, d_recurrent, None, None, None, None, None


class _BidirectionalRecurrence(torch.autograd.Function):
    """Products (P, 8C) and recurrent weights (4C, C), forward and backward, to outputs (P, 2C)."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,
        recurrent_forward: Tensor,
        recurrent_backward: Tensor,
        sizes: tuple[int, ...],
        starts: Tensor,
        earlier: Tensor,
    ) -> Tensor:
        from elmox.kernels.recurrence.triton_kernels import TritonRecurrence

        kept = products.clone(memory_format=torch.contiguous_format)
        recurrent = torch.stack([recurrent_forward, recurrent_backward])
        shape = len(products), 2 * recurrent.shape[2]
        cells, outputs = (products.new_empty(shape) for _ in range(2))
        TritonRecurrence(recurrent, starts, sizes[0]).forward(kept, cells, outputs)
        ctx.save_for_backward(kept, cells, outputs, recurrent, starts, earlier)
        ctx.num_rows = sizes[0]
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Any:
        from elmox.kernels.recurrence.triton_kernels import TritonRecurrence

        kept, cells, outputs, recurrent, starts, earlier = ctx.saved_tensors
        d_products, num_rows = torch.empty_like(kept), ctx.num_rows
        steps = TritonRecurrence(recurrent, starts, num_rows)
        steps.backward(kept, cells, d_outputs, d_products)
        d_forward, d_backward = d_products.chunk(2, dim=1)
        forward, backward = outputs.chunk(2, dim=1)
        d_recurrent = (
            d_forward[num_rows:].T @ forward[earlier],
            d_backward[earlier].T @ backward[num_rows:],
        )
        return d_products, *d_recurrent, None, None, None
