"""The kernels of an LSTM step with projection for 16-bit training and inference on a GPU.

`forward_step` computes the products and the cell of a step in one kernel: the four gates of a cell
are columns of the same tile, so they are activated in the registers that hold their sums.
`backward_step` is the cell's derivative in one pass, in offset. The other two clip the projection
and pass its gradient. All compute in float32.

Gates are interleaved: 32 cells' input gates, then their forget, output and candidate gates, then
those of the next 32 cells. `interleaved` returns weights in this layout.

Shapes: D directions, B rows, P projection, C cells, K width of a step's inputs: input and hidden
state side by side.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from elmox.kernels.sizes import num_blocks, power_of_2

RUN = 32  # neighboring gates of one kind
_FEW_ROWS = 256
# Cells of a row in one program of `backward_step`: four per thread. With eight, the 16-bit and the
# 32-bit numbers are distributed over the threads differently, and moving them takes three times as
# long.
_CELLS = 512


@dataclass(frozen=True)
class Tile:
    """The tile of a product: rows, columns and summands, warps and stages."""

    rows: int
    columns: int
    summands: int
    warps: int
    stages: int


# The fastest of ten on an H200; see benchmarks/results/lstm.md.
TILE = Tile(rows=128, columns=128, summands=64, warps=4, stages=3)
TILE_OF_FEW_ROWS = Tile(rows=64, columns=128, summands=64, warps=4, stages=4)


def interleaved(weight: Tensor) -> Tensor:
    """Return a view of (D, 4C, ...), the four gates one after the other, in the order above.

    Returns:
        (D, C / RUN, 4, RUN, ...).
    """
    kinds: Tensor = weight.unflatten(1, (4, -1, RUN))
    return kinds.transpose(1, 2)


def deinterleaved(gates: Tensor) -> Tensor:
    """Return a copy of interleaved (D, 4C, ...) with the four gates one after the other."""
    runs: Tensor = gates.unflatten(1, (-1, 4, RUN))
    return runs.transpose(1, 2).clone(memory_format=torch.contiguous_format).flatten(1, 3)


def forward_step(
    both: Tensor,
    weight: Tensor,
    bias: Tensor,
    cell: Tensor,
    new_cell: Tensor,
    memory: Tensor,
    gates: Tensor | None,
    clip_before: float,
    clip: float,
    tile: Tile | None = None,
) -> None:
    """Compute one step.

    Args:
        both: (D, B, K) input and hidden state; rows are neighbors in memory.
        weight: (D, 4C, K) interleaved.
        bias: (D, 4C) float32, interleaved.
        cell: (D, B, C) float32, before the step.
        new_cell: (D, B, C) float32, filled, not clipped. May be `cell`.
        memory: (D, B, C), filled with output gate * tanh of the clipped new cell.
        gates: (D, B, 4C), filled with the activated gates, interleaved; None if not needed.
        clip_before: bound of `cell`; infinity for none.
        clip: bound of `new_cell`.
        tile: chosen for the number of rows by default.
    """
    num_directions, num_rows, num_summands = both.shape
    num_cells = cell.shape[2]
    tile = tile or (TILE_OF_FEW_ROWS if num_rows <= _FEW_ROWS else TILE)
    kept = memory if gates is None else gates
    num_tiles = num_blocks(num_rows, tile.rows) * num_blocks(4 * num_cells, tile.columns)
    _forward_step[num_tiles, num_directions](
        _blocks(both, tile.rows, tile.summands),
        _blocks(weight, tile.columns, tile.summands),
        bias, cell, new_cell, memory, kept,
        both.stride(0) // both.stride(1),
        cell.stride(0), new_cell.stride(0), memory.stride(0), kept.stride(0),
        num_rows, num_cells, clip_before, clip,
        K=num_summands, KEEP=gates is not None, ON_GPU=both.is_cuda, RUN=RUN,
        ROWS=tile.rows, COLUMNS=tile.columns, SUMMANDS=tile.summands,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def backward_step(
    gates: Tensor,
    cell: Tensor,
    new_cell: Tensor,
    d_memory: Tensor,
    d_cell: Tensor,
    clip_before: float,
    clip: float,
) -> None:
    """Compute the gradients of one step, in offset.

    Args:
        gates: (D, B, 4C) from `forward_step`; replaced by gradients before activation.
        cell: (D, B, C) before the step.
        new_cell: (D, B, C) after it.
        d_memory: (D, B, C) gradient of the memory.
        d_cell: (D, B, C) gradient of the clipped new cell; replaced by that of the cell before.
        clip_before, clip: as in `forward_step`.
    """
    num_directions, num_rows, num_cells = d_cell.shape
    _backward_step[num_rows * num_blocks(num_cells, _CELLS), num_directions](
        gates, cell, new_cell, d_memory, d_cell,
        gates.stride(0), cell.stride(0), new_cell.stride(0), d_memory.stride(0), d_cell.stride(0),
        num_cells, clip_before, clip,
        ON_GPU=gates.is_cuda, RUN=RUN, CELLS=_CELLS, num_warps=4,
    )  # fmt: skip


def clip_outputs(outputs: Tensor, hidden: Tensor, following: Tensor, bound: float) -> None:
    """Clip a projection into the hidden state and into the inputs of the next step.

    Args:
        outputs: (D, B, P), not clipped.
        hidden: (D, B, P), filled.
        following: (D, b, P) of the first b <= B rows, filled.
        bound: infinity for none.
    """
    num_directions, num_rows, dim = outputs.shape
    _clip_outputs[num_rows, num_directions](
        outputs, hidden, following,
        outputs.stride(0), outputs.stride(1), hidden.stride(0), hidden.stride(1),
        following.stride(0), following.stride(1),
        following.shape[1], dim, bound, DIM=power_of_2(dim), num_warps=_warps(dim),
    )  # fmt: skip


def clip_outputs_backward(
    d_outputs: Tensor, outputs: Tensor, d_hidden: Tensor, bound: float
) -> None:
    """Add the gradient of the next step, and zero the sum where outputs were clipped.

    Args:
        d_outputs: (D, B, P) gradient of the clipped outputs; replaced by that of the unclipped.
        outputs: (D, B, P), not clipped.
        d_hidden: (D, B, P).
        bound: infinity for none.
    """
    num_directions, num_rows, dim = outputs.shape
    _clip_outputs_backward[num_rows, num_directions](
        d_outputs, outputs, d_hidden, d_outputs.stride(0), outputs.stride(0), d_hidden.stride(0),
        dim, bound, DIM=power_of_2(dim), num_warps=_warps(dim),
    )  # fmt: skip


def _warps(dim: int) -> int:
    return max(1, min(4, dim // 128))


def _blocks(matrices: Tensor, rows: int, columns: int) -> Any:
    """Return (D, R, S) as a descriptor of one matrix with all rows, for loading blocks."""
    num, height, width = matrices.shape
    by_row = matrices.stride(1)
    assert matrices.stride(2) == 1
    assert matrices.stride(0) % by_row == 0
    num_rows = (num - 1) * (matrices.stride(0) // by_row) + height
    return TensorDescriptor(matrices, [num_rows, width], [by_row, 1], [rows, columns])


@triton.jit
def _tanh(x, ON_GPU: tl.constexpr):
    # The hardware's approximation, to 11 bits: the exact one would take a fifth of a step's time.
    if ON_GPU:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _sigmoid(x, ON_GPU: tl.constexpr):
    return 0.5 * _tanh(0.5 * x, ON_GPU) + 0.5


@triton.jit
def _clip(x, bound):
    return tl.minimum(tl.maximum(x, -bound), bound)


@triton.jit
def _forward_step(
    both, weight, bias, cell, new_cell, memory, gates,
    both_d, cell_d, new_d, memory_d, gates_d,
    num_rows, num_cells, clip_before, clip,
    K: tl.constexpr, KEEP: tl.constexpr, ON_GPU: tl.constexpr, RUN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, SUMMANDS: tl.constexpr,
):  # fmt: skip
    # Neighboring programs share their columns, so that a weight is read from memory once.
    num_row_blocks = tl.cdiv(num_rows, ROWS)
    row = (tl.program_id(0) % num_row_blocks) * ROWS
    column = (tl.program_id(0) // num_row_blocks) * COLUMNS
    direction = tl.program_id(1)
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, K, SUMMANDS):
        left = both.load([direction * both_d + row, k])
        right = weight.load([direction * 4 * num_cells + column, k])
        sums = tl.dot(left, right.T, sums)
    sums += tl.load(bias + direction * 4 * num_cells + column + tl.arange(0, COLUMNS))[None, :]
    # The two bits of a gate's number last, then split: each thread holds all four gates of a cell.
    kinds = sums.reshape(ROWS, COLUMNS // (4 * RUN), 2, 2, RUN).permute(0, 1, 4, 2, 3)
    even, odd = tl.split(kinds.reshape(ROWS, COLUMNS // 4, 2, 2))
    i, o = tl.split(even)
    f, g = tl.split(odd)
    i, f, o = _sigmoid(i, ON_GPU), _sigmoid(f, ON_GPU), _sigmoid(o, ON_GPU)
    g = _tanh(g, ON_GPU)
    rows = row + tl.arange(0, ROWS)[:, None]
    local = tl.arange(0, COLUMNS // 4)[None, :]
    inside = rows < num_rows
    far, offset = direction.to(tl.int64), rows.to(tl.int64) * num_cells + column // 4 + local
    before = tl.load(cell + far * cell_d + offset, mask=inside, other=0.0)
    c = f * _clip(before, clip_before) + i * g
    tl.store(new_cell + far * new_d + offset, c, mask=inside)
    m = o * _tanh(_clip(c, clip), ON_GPU)
    tl.store(memory + far * memory_d + offset, m, mask=inside)
    if KEEP:
        gate_offset = local // RUN * (4 * RUN) + local % RUN
        gate = gates + far * gates_d + rows.to(tl.int64) * (4 * num_cells) + column + gate_offset
        tl.store(gate, i, mask=inside)
        tl.store(gate + RUN, f, mask=inside)
        tl.store(gate + 2 * RUN, o, mask=inside)
        tl.store(gate + 3 * RUN, g, mask=inside)


@triton.jit
def _backward_step(
    gates, cell, new_cell, d_memory, d_cell,
    gates_d, cell_d, new_d, d_memory_d, d_cell_d,
    num_cells, clip_before, clip,
    ON_GPU: tl.constexpr, RUN: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    # Neighboring programs are neighbors in memory.
    per_row = tl.cdiv(num_cells, CELLS)
    row, direction = (tl.program_id(0) // per_row).to(tl.int64), tl.program_id(1).to(tl.int64)
    cells = tl.program_id(0) % per_row * CELLS + tl.arange(0, CELLS)
    inside = cells < num_cells
    offset = row * num_cells + cells
    gate_offset = cells // RUN * (4 * RUN) + cells % RUN
    gate = gates + direction * gates_d + row * (4 * num_cells) + gate_offset
    i = tl.load(gate, mask=inside).to(tl.float32)
    f = tl.load(gate + RUN, mask=inside).to(tl.float32)
    o = tl.load(gate + 2 * RUN, mask=inside).to(tl.float32)
    g = tl.load(gate + 3 * RUN, mask=inside).to(tl.float32)
    before = tl.load(cell + direction * cell_d + offset, mask=inside)
    after = tl.load(new_cell + direction * new_d + offset, mask=inside)
    dm = tl.load(d_memory + direction * d_memory_d + offset, mask=inside).to(tl.float32)
    d_cell_at = d_cell + direction * d_cell_d + offset
    s = _tanh(_clip(after, clip), ON_GPU)
    dc = tl.load(d_cell_at, mask=inside) + dm * o * (1.0 - s * s)
    dc = tl.where(tl.abs(after) <= clip, dc, 0.0)  # as torch.clamp: at the bounds it passes
    tl.store(gate, dc * g * i * (1.0 - i), mask=inside)
    tl.store(gate + RUN, dc * _clip(before, clip_before) * f * (1.0 - f), mask=inside)
    tl.store(gate + 2 * RUN, dm * s * o * (1.0 - o), mask=inside)
    tl.store(gate + 3 * RUN, dc * i * (1.0 - g * g), mask=inside)
    tl.store(d_cell_at, dc * f, mask=inside)


@triton.jit
def _clip_outputs(
    outputs, hidden, following,
    outputs_d, outputs_b, hidden_d, hidden_b, following_d, following_b,
    num_following, dim, bound, DIM: tl.constexpr,
):  # fmt: skip
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, DIM)
    inside = columns < dim
    h = tl.load(outputs + direction * outputs_d + row * outputs_b + columns, mask=inside)
    h = _clip(h.to(tl.float32), bound)
    tl.store(hidden + direction * hidden_d + row * hidden_b + columns, h, mask=inside)
    continues = inside & (row < num_following)
    tl.store(following + direction * following_d + row * following_b + columns, h, mask=continues)


@triton.jit
def _clip_outputs_backward(
    d_outputs, outputs, d_hidden, d_outputs_d, outputs_d, d_hidden_d,
    dim, bound, DIM: tl.constexpr,
):  # fmt: skip
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, DIM)
    inside = columns < dim
    offset = row * dim + columns
    d = tl.load(d_outputs + direction * d_outputs_d + offset, mask=inside).to(tl.float32)
    d += tl.load(d_hidden + direction * d_hidden_d + offset, mask=inside).to(tl.float32)
    h = tl.load(outputs + direction * outputs_d + offset, mask=inside).to(tl.float32)
    d = tl.where(tl.abs(h) <= bound, d, 0.0)
    tl.store(d_outputs + direction * d_outputs_d + offset, d, mask=inside)
