"""Dropout with masks that do not depend on which process computes which rows.

Whether an element is dropped depends only on a key, its row's global number and its position in the
other axes. No generator has a state to save, and rows can be distributed over any number of
processes. The masks are an integer hash of those three (multiplications and xor-shifts, which wrap
in the same way on every device), so a CPU and a GPU drop the same elements. The Triton kernel
hashes while it multiplies; here a mask is computed and kept for the backward pass.

Shapes: x is seen as (A, B, Z): B rows, A elements before the row axis, Z after it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Elements hashed together, with two integers each: 2 MB stay in a CPU's cache, 128 MB keep a GPU
# busy.
ELEMENTS_AT_ONCE = {"cpu": 2**18, "cuda": 2**24}

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads neighboring numbers


def plain_dropout(
    x: Tensor, p: float, key: int, rows: Tensor, row_dim: int, scale: float
) -> Tensor:
    """Compute the mask and apply it; see `dispatch.keyed_dropout`."""
    mask = dropout_mask(x.shape, p, key, rows, row_dim)
    dropped: Tensor = _Dropout.apply(x, mask, scale)  # type: ignore[no-untyped-call]
    return dropped


def dropout_mask(shape: torch.Size, p: float, key: int, rows: Tensor, row_dim: int) -> Tensor:
    """Return what is kept: a bool tensor of that shape on the device of `rows`."""
    row_dim %= len(shape)
    num_before, num_after = shape[:row_dim].numel(), shape[row_dim + 1 :].numel()
    assert rows.shape == (shape[row_dim],), f"{len(rows)} row numbers for {shape[row_dim]} rows"
    factors, addends = _row_seeds(key, rows)
    threshold = drop_threshold(p)
    mask = torch.empty(num_before, len(rows), num_after, dtype=torch.bool, device=rows.device)
    limit = ELEMENTS_AT_ONCE.get(rows.device.type, ELEMENTS_AT_ONCE["cpu"])
    rows_at_once = max(1, min(len(rows), limit // max(1, num_after)))
    before_at_once = max(1, limit // max(1, rows_at_once * num_after))
    for first in range(0, num_before, before_at_once):
        last = min(first + before_at_once, num_before)
        positions = _mixed_positions(first * num_after, last * num_after, rows.device)
        positions = positions.view(last - first, 1, num_after)
        for row in range(0, len(rows), rows_at_once):
            part = slice(row, row + rows_at_once)
            hashed = (positions * factors[part]).add_(addends[part])
            # The comparison uses the high bits: a last xor-shift for the low ones is not needed.
            _xor_shift_(hashed, 15).mul_(signed(0x846CA68B, 32))
            torch.ge(hashed, threshold, out=mask[first:last, part])
    return mask.view(shape)


def drop_threshold(p: float) -> int:
    """Return the bound below which a hash, as a signed 32-bit number, drops its element."""
    return min(round(p * 2**32), 2**32 - 1) - 2**31


def _row_seeds(key: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return an odd factor and an addend per row, (B, 1) int32 each: 64 mixed bits of both.

    The mixing of key and row number is splitmix64's (Steele et al. 2014).
    """
    seeds = rows.long() * signed(_GOLDEN, 64) + signed(key, 64)
    _xor_shift_(seeds, 30).mul_(signed(0xBF58476D1CE4E5B9, 64))
    _xor_shift_(seeds, 27).mul_(signed(0x94D049BB133111EB, 64))
    halves = _xor_shift_(seeds, 31).view(torch.int32).view(-1, 2)
    return halves[:, :1] | 1, halves[:, 1:]


def _mixed_positions(start: int, stop: int, device: torch.device) -> Tensor:
    """Return start..stop, mixed to 32 bits each with the constants of lowbias32 (Wellons)."""
    positions = torch.arange(start, stop, device=device).to(torch.int32)
    _xor_shift_(positions, 16).mul_(signed(0x7FEB352D, 32))
    _xor_shift_(positions, 15).mul_(signed(0x846CA68B, 32))
    return _xor_shift_(positions, 16)


def _xor_shift_(x: Tensor, bits: int) -> Tensor:
    """Compute x ^= x >> bits in place, filling with zeros from the left."""
    width = x.element_size() * 8
    shifted = (x >> bits).bitwise_and_(2 ** (width - bits) - 1)  # torch fills with the sign
    return x.bitwise_xor_(shifted)


def signed(number: int, bits: int) -> int:
    """Return the signed integer with the same lowest bits."""
    number %= 2**bits
    return number - 2**bits if number >= 2 ** (bits - 1) else number


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return _masked(x, mask, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (mask,) = ctx.saved_tensors
        return _masked(gradient, mask, ctx.scale), None, None


def _masked(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return x * mask * scale, in one pass on a GPU."""
    masked: Tensor = torch.ops.aten.native_dropout_backward(x, mask, scale)
    return masked
