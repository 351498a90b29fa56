"""A highway layer on a GPU: one product for both affine maps, point-wise Triton kernels.

Both maps have the same input, so their weights side by side form one product of twice the width,
and one product computes the gradient of the input. Everything point-wise is one Triton kernel
forward and one backward, in float32. The backward kernel also sums the biases' gradients, in parts
that are added in a fixed order.

Shapes: U words, F filters. Column blocks "carry" and "transform", in this order.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.char_cnn.triton_kernels import working_dtype

BLOCK = 1024  # columns of a program
ROWS = 32  # rows of a backward program


def highway(
    x: Tensor, carry: Tensor, carry_bias: Tensor, transform: Tensor, transform_bias: Tensor
) -> Tensor:
    """Compute `Highway.forward`: (U, F) -> (U, F), in the precision of a linear layer.

    Args:
        x: (U, F).
        carry, transform: (F, F) weights.
        carry_bias, transform_bias: (F,).
    """
    parameters = (carry, carry_bias, transform, transform_bias)
    x = x.to(working_dtype(carry))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, *parameters)):
        return cast(Tensor, _Highway.apply(x, *parameters))
    carried = F.linear(x, carry.to(x.dtype), carry_bias.to(x.dtype))
    return _gate(x, carried, F.linear(x, transform.to(x.dtype), transform_bias.to(x.dtype)))


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        carry, carry_bias, transform, transform_bias = parameters
        dim = x.shape[1]
        weight = x.new_empty((2 * dim, dim))
        weight[:dim] = carry
        weight[dim:] = transform
        sums = torch.addmm(torch.cat([carry_bias, transform_bias]).to(x.dtype), x, weight.t())
        ctx.save_for_backward(x, weight, sums)
        return _gate(x, sums[:, :dim], sums[:, dim:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, sums = ctx.saved_tensors
        num_words, dim = x.shape
        d_x, d_sums = torch.empty_like(x), torch.empty_like(sums)
        num_parts = triton.cdiv(num_words, ROWS)
        bias = x.new_empty((num_parts, 2 * dim), dtype=torch.float32)
        _gate_backward[(triton.cdiv(dim, BLOCK), num_parts)](
            x, sums, gradient.contiguous(), d_x, d_sums, bias, num_words, dim,
            ROWS=ROWS, BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
        d_weight, d_bias = d_sums.t() @ x, bias.sum(0)
        if ctx.needs_input_grad[0]:
            d_x = torch.addmm(d_x, d_sums, weight)
        return d_x, d_weight[:dim], d_bias[:dim], d_weight[dim:], d_bias[dim:]


def _gate(x: Tensor, carried: Tensor, transformed: Tensor) -> Tensor:
    """Run the point-wise half; the two maps may be halves of one tensor."""
    x = x.contiguous()
    num_words, dim = x.shape
    out = torch.empty_like(x)
    _gate_forward[(num_words, triton.cdiv(dim, BLOCK))](
        x, carried, transformed, out, carried.stride(0), dim, BLOCK=BLOCK, num_warps=4
    )
    return out


@triton.jit
def _gate_forward(x, carried, transformed, out, stride, dim, BLOCK: tl.constexpr):
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < dim
    row = tl.program_id(0).to(tl.int64)
    kept = tl.load(x + row * dim + columns, mask=inside).to(tl.float32)
    gate = tl.sigmoid(tl.load(carried + row * stride + columns, mask=inside).to(tl.float32))
    new = tl.load(transformed + row * stride + columns, mask=inside).to(tl.float32)
    new = tl.maximum(new, 0.0, propagate_nan=tl.PropagateNan.ALL)
    mixed = kept + gate * (new - kept)
    tl.store(out + row * dim + columns, mixed.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_words"])
def _gate_backward(
    x, sums, gradient, d_x, d_sums, bias, num_words, dim,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Store the gradients of both sums, the kept input's, and parts of those of the biases."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < dim
    part = tl.program_id(1)
    carry_total = tl.zeros((BLOCK,), tl.float32)
    transform_total = tl.zeros((BLOCK,), tl.float32)
    for row in range(part * ROWS, tl.minimum((part + 1) * ROWS, num_words)):
        single = tl.cast(row, tl.int64) * dim + columns
        double = single + tl.cast(row, tl.int64) * dim
        g = tl.load(gradient + single, mask=inside, other=0.0).to(tl.float32)
        kept = tl.load(x + single, mask=inside, other=0.0).to(tl.float32)
        gate = tl.sigmoid(tl.load(sums + double, mask=inside, other=0.0).to(tl.float32))
        new = tl.load(sums + double + dim, mask=inside, other=0.0).to(tl.float32)
        d_carry = g * (tl.maximum(new, 0.0) - kept) * gate * (1.0 - gate)
        d_transform = tl.where(new > 0.0, g * gate, 0.0)
        d_kept = g * (1.0 - gate)
        tl.store(d_x + single, d_kept.to(d_x.dtype.element_ty), mask=inside)
        tl.store(d_sums + double, d_carry.to(d_sums.dtype.element_ty), mask=inside)
        tl.store(d_sums + double + dim, d_transform.to(d_sums.dtype.element_ty), mask=inside)
        carry_total += d_carry
        transform_total += d_transform
    bias_part = bias + part.to(tl.int64) * 2 * dim + columns
    tl.store(bias_part, carry_total, mask=inside)
    tl.store(bias_part + dim, transform_total, mask=inside)
