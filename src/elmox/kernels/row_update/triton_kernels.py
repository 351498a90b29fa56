"""AdamW and Adagrad in one pass over memory: Triton kernels for a GPU.

They update a whole array or only some rows of one, which are gathered, updated and written back in
the same pass. Clipping of gradients and a flag that skips the update are read on the device: the
host waits for neither. `plain.py` has the same formulas in plain torch. Only imported where Triton
and a GPU are present.

Shapes: V rows of W numbers, U of them with a gradient.
"""

import math
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from elmox.kernels.row_update.plain import AdamWFactors

_BLOCK = 1024  # numbers of a program


class Brake(NamedTuple):
    """Clipping and skipping of an update, on the device: () float32 each."""

    divisor: Tensor  # of gradients
    skip: Tensor  # not 0: nothing is updated


def adagrad(
    weight: Tensor, total: Tensor, values: Tensor, rows: Tensor | None, brake: Brake, lr: float
) -> None:
    """Run Adagrad in place; see `adamw`.

    Args:
        weight: (V, ...).
        total: sums of squares, the same shape.
        values: the gradient.
        rows: (U,) its rows.
        brake: clipping and skipping.
        lr: learning rate.
    """
    _launch(_adagrad, values, rows, (weight, total), brake, (lr,))


def adamw(
    weight: Tensor,
    slots: tuple[Tensor, Tensor],
    values: Tensor,
    rows: Tensor | None,
    brake: Brake,
    factors: AdamWFactors,
) -> None:
    """Run AdamW in place.

    Args:
        weight: (V, ...) contiguous, as all arguments.
        slots: means of the gradients and of their squares, the same shape.
        values: (U, ...) gradient of some rows, or of the array's shape.
        rows: (U,) their indices, distinct; None for all.
        brake: clipping and skipping.
        factors: the numbers of the formula.
    """
    _launch(_adamw, values, rows, (weight, *slots), brake, factors)


def _launch(
    kernel: Any,
    values: Tensor,
    rows: Tensor | None,
    arrays: tuple[Tensor, ...],
    brake: Brake,
    numbers: tuple[float, ...],
) -> None:
    """Launch one program per block of rows and columns.

    A whole array is seen as rows, too, as wide as its size allows: a row is either inside or
    outside, so that several numbers can be loaded at once.
    """
    size = values.numel()
    if size == 0:
        return
    assert values.is_contiguous()
    assert all(array.is_contiguous() for array in arrays)
    width = math.gcd(size, _BLOCK) if rows is None else size // len(rows)
    columns = min(_BLOCK, triton.next_power_of_2(width))
    lines = _BLOCK // columns
    grid = (triton.cdiv(size // width, lines), triton.cdiv(width, columns))
    kernel[grid](
        values, values if rows is None else rows, *arrays, *brake, *numbers, size // width,
        HAS_ROWS=rows is not None, WIDTH=width, LINES=lines, COLUMNS=columns, num_warps=4,
    )  # fmt: skip


@triton.jit
def _offsets(
    rows, skip, num_lines,
    HAS_ROWS: tl.constexpr, WIDTH: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return offsets into the values, offsets into the arrays, and which of them exist."""
    num_lines = tl.where(tl.load(skip) == 0.0, num_lines, 0)
    line = tl.program_id(0) * LINES + tl.arange(0, LINES)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    offset = line.to(tl.int64) * WIDTH + column
    at = offset
    if HAS_ROWS:
        row = tl.load(rows + line, mask=line < num_lines, other=0)
        at = row.to(tl.int64) * WIDTH + column
    return offset, at, (line < num_lines) & (column < WIDTH)


@triton.jit(do_not_specialize=["num_lines"])
def _adagrad(
    values, rows, weight, total, divisor, skip, lr, num_lines,
    HAS_ROWS: tl.constexpr, WIDTH: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    offset, at, inside = _offsets(rows, skip, num_lines, HAS_ROWS, WIDTH, LINES, COLUMNS)
    g = tl.div_rn(tl.load(values + offset, mask=inside, other=0.0), tl.load(divisor))
    s = tl.load(total + at, mask=inside, other=1.0) + g * g
    w = tl.load(weight + at, mask=inside, other=0.0) - lr * tl.div_rn(g, tl.sqrt_rn(s))
    tl.store(total + at, s, mask=inside)
    tl.store(weight + at, w, mask=inside)


@triton.jit(do_not_specialize=["num_lines"])
def _adamw(
    values, rows, weight, mean, square, divisor, skip,
    new_share, kept_square, new_square, correction, eps, rate, decay, num_lines,
    HAS_ROWS: tl.constexpr, WIDTH: tl.constexpr, LINES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    offset, at, inside = _offsets(rows, skip, num_lines, HAS_ROWS, WIDTH, LINES, COLUMNS)
    g = tl.div_rn(tl.load(values + offset, mask=inside, other=0.0), tl.load(divisor))
    m = tl.load(mean + at, mask=inside, other=0.0)
    m += (g - m) * new_share
    s = tl.load(square + at, mask=inside, other=1.0) * kept_square + g * g * new_square
    w = tl.load(weight + at, mask=inside, other=0.0)
    w = w * decay - rate * tl.div_rn(m, tl.sqrt_rn(s / correction) + eps)
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, s, mask=inside)
    tl.store(weight + at, w, mask=inside)
