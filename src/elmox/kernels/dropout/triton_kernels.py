"""Keyed dropout in one pass over memory: a Triton kernel for a GPU.

The hash of `plain.py`, bit for bit, in registers: no mask is stored, and the backward pass hashes
again. Only imported where Triton and a GPU are present.

Shapes: x is seen as (A, B, Z): B rows, A elements before the row axis, Z after it.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.sizes import num_blocks, power_of_2

# Elements per program: 16 bytes for each of 128 threads, four times, in 16 bits.
_ELEMENTS = 4096


def dropout(
    x: Tensor, threshold: int, scale: float, key: int, rows: Tensor, row_dim: int
) -> Tensor:
    """Zero the elements whose hash is less than a threshold and scale the others.

    Args:
        x: any shape.
        threshold: a signed 32-bit number.
        scale: factor of the kept elements.
        key: a signed 64-bit number.
        rows: (B,) int64 global number of each row.
        row_dim: the axis of the rows in x; not negative.
    """
    dropped: Tensor = _Dropout.apply(x, threshold, scale, key, rows, row_dim)
    return dropped


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, threshold: int, scale: float, key: int, rows: Tensor, row_dim: int
    ) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.options = (threshold, scale, key, row_dim)
        return _masked(x, threshold, scale, key, rows, row_dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (rows,) = ctx.saved_tensors
        threshold, scale, key, row_dim = ctx.options
        masked = _masked(gradient, threshold, scale, key, rows, row_dim)
        return masked, None, None, None, None, None


def _masked(
    x: Tensor, threshold: int, scale: float, key: int, rows: Tensor, row_dim: int
) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel() == 0:
        return out
    num_before, num_after = x.shape[:row_dim].numel(), x.shape[row_dim + 1 :].numel()
    block_z = min(power_of_2(num_after), _ELEMENTS)
    block_b = _ELEMENTS // block_z
    # Blocks of rows and columns share an axis, the only one that may be longer than 65,535.
    num_column_blocks = num_blocks(num_after, block_z)
    grid = (num_blocks(len(rows), block_b) * num_column_blocks * num_before,)
    sizes = (len(rows), num_after, num_column_blocks)
    _drop[grid](
        x, out, rows, key, threshold, scale, *sizes, BLOCK_B=block_b, BLOCK_Z=block_z, num_warps=4
    )
    return out


@triton.jit(do_not_specialize=["key", "threshold"])
def _drop(
    x, out, rows, key, threshold, scale,
    num_rows, num_after, num_column_blocks,
    BLOCK_B: tl.constexpr, BLOCK_Z: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    columns = program % num_column_blocks * BLOCK_Z + tl.arange(0, BLOCK_Z)
    program = program // num_column_blocks
    num_row_blocks = tl.cdiv(num_rows, BLOCK_B)
    numbers = program % num_row_blocks * BLOCK_B + tl.arange(0, BLOCK_B)
    before = program // num_row_blocks
    positions = _mixed_position((before * num_after + columns).to(tl.uint32))
    seeds = _mixed_row(tl.load(rows + numbers, mask=numbers < num_rows, other=0), key)
    factors, addends = seeds.to(tl.uint32) | 1, (seeds >> 32).to(tl.uint32)
    hashed = positions[None, :] * factors[:, None] + addends[:, None]
    hashed = (hashed ^ (hashed >> 15)) * 0x846CA68B
    is_kept = hashed.to(tl.int32, bitcast=True) >= threshold
    inside = (numbers < num_rows)[:, None] & (columns < num_after)[None, :]
    row_starts = (before.to(tl.int64) * num_rows + numbers) * num_after
    elements = row_starts[:, None] + columns[None, :]
    value = tl.load(x + elements, mask=inside).to(tl.float32)
    tl.store(out + elements, tl.where(is_kept, value * scale, 0.0), mask=inside)


@triton.jit
def _mixed_row(rows, key):
    seeds = rows.to(tl.uint64) * 0x9E3779B97F4A7C15 + key.to(tl.uint64)
    seeds = (seeds ^ (seeds >> 30)) * 0xBF58476D1CE4E5B9
    seeds = (seeds ^ (seeds >> 27)) * 0x94D049BB133111EB
    return seeds ^ (seeds >> 31)


@triton.jit
def _mixed_position(positions):
    positions = (positions ^ (positions >> 16)) * 0x7FEB352D
    positions = (positions ^ (positions >> 15)) * 0x846CA68B
    return positions ^ (positions >> 16)
