"""A bidirectional LSTM over packed rows: torch's, or Triton's where that is faster.

On a GPU torch has cuDNN read rows of different lengths, which launches some kernels for every step;
`kernels/recurrence/triton_kernels.py` launches one for all of them. The weights are torch's in any
case.

Shapes: R rows, P words of them all, W numbers of a word, C cells.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from elmox.kernels.dispatch import why_not_triton
from elmox.tasks.nn.packing import PackedRows


def read_rows(rnn: nn.LSTM | nn.GRU, words: Tensor, rows: PackedRows) -> Tensor:
    """What an RNN of one layer makes of packed rows: (P, W) to (P, directions * C)."""
    assert (rnn.num_layers, rnn.bias, rnn.proj_size) == (1, True, 0)
    if isinstance(rnn, nn.LSTM) and rnn.bidirectional and why_not_triton(words) is None:
        return _read_both_ways(rnn, words, rows)
    found: Tensor = rnn(PackedSequence(words, torch.tensor(rows.sizes)))[0].data
    return found


def _read_both_ways(lstm: nn.LSTM, words: Tensor, rows: PackedRows) -> Tensor:
    def both(name: str) -> list[Tensor]:
        return [getattr(lstm, f"{name}_l0"), getattr(lstm, f"{name}_l0_reverse")]

    bias = torch.cat(both("bias_ih")) + torch.cat(both("bias_hh"))
    products = F.linear(words, torch.cat(both("weight_ih")), bias)
    given = (products, *both("weight_hh"), *rows)
    found: Tensor = _Recurrence.apply(*given)  # type: ignore[no-untyped-call]
    return found


class _Recurrence(torch.autograd.Function):
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
        TritonRecurrence(recurrent, starts, sizes[0]).read(kept, cells, outputs)
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
        steps.go_back(kept, cells, d_outputs, d_products)
        d_forward, d_backward = d_products.chunk(2, dim=1)
        forward, backward = outputs.chunk(2, dim=1)
        d_recurrent = (
            d_forward[num_rows:].T @ forward[earlier],
            d_backward[earlier].T @ backward[num_rows:],
        )
        return d_products, *d_recurrent, None, None, None
