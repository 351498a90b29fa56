"""The point-wise half of an LSTM step in one pass over memory: Triton kernels for a GPU.

`TorchPointwise` takes a dozen passes. These compute in float32 and store in the precision of the
tensors. Only imported where Triton and a GPU are present.

Shapes: D directions, B rows, C cells. Gate order: input, forget, output, candidate.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from elmox.kernels.lstm.plain_pointwise import Step

_BLOCK = 1024


class TritonPointwise:
    """One kernel forward, one backward."""

    def forward(self, step: Step, memory: Tensor) -> None:
        """See `Pointwise`."""
        tensors = (step.gates, step.cell, step.new_cell, memory)
        _launch(_forward, tensors, step)

    def backward(
        self, step: Step, d_memory: Tensor, d_cell: Tensor, d_gates: Tensor, memory: Tensor
    ) -> None:
        """See `Pointwise`."""
        tensors = (step.gates, step.cell, step.new_cell, d_memory, d_cell, d_gates, memory)
        _launch(_backward, tensors, step)


def _launch(kernel: Any, tensors: tuple[Tensor, ...], step: Step) -> None:
    """Launch one program per row, direction and block of cells."""
    num_directions, num_rows, num_cells = step.new_cell.shape
    strides = [size for tensor in tensors for size in tensor.stride()[:2]]
    assert all(tensor.stride(2) == 1 for tensor in tensors)
    grid = (num_rows, triton.cdiv(num_cells, _BLOCK), num_directions)
    bounds = (step.clip_before, step.clip)
    kernel[grid](*tensors, *strides, num_cells, *bounds, BLOCK=_BLOCK, num_warps=4)


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _clip(x, bound):
    return tl.minimum(tl.maximum(x, -bound), bound)


@triton.jit
def _at(pointer, by_direction, by_row, columns):
    direction, row = tl.program_id(2).to(tl.int64), tl.program_id(0).to(tl.int64)
    return pointer + direction * by_direction + row * by_row + columns


@triton.jit
def _load(pointer, inside):
    return tl.load(pointer, mask=inside).to(tl.float32)


@triton.jit
def _block(num_cells, BLOCK: tl.constexpr):
    """Return the program's cells, and which of them exist."""
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return columns, columns < num_cells


@triton.jit
def _load_gates(gate, num_cells, inside):
    """Return the four gates of the program's cells."""
    i, f = _load(gate, inside), _load(gate + num_cells, inside)
    return i, f, _load(gate + 2 * num_cells, inside), _load(gate + 3 * num_cells, inside)


@triton.jit
def _forward(
    gates, cell, new_cell, memory,
    gates_d, gates_b, cell_d, cell_b, new_d, new_b, memory_d, memory_b,
    num_cells, clip_before, clip,
    BLOCK: tl.constexpr,
):  # fmt: skip
    columns, inside = _block(num_cells, BLOCK)
    gate = _at(gates, gates_d, gates_b, columns)
    i, f, o, g = _load_gates(gate, num_cells, inside)
    i, f, o, g = tl.sigmoid(i), tl.sigmoid(f), tl.sigmoid(o), _tanh(g)
    before = _load(_at(cell, cell_d, cell_b, columns), inside)
    c = f * _clip(before, clip_before) + i * g
    tl.store(gate, i, mask=inside)
    tl.store(gate + num_cells, f, mask=inside)
    tl.store(gate + 2 * num_cells, o, mask=inside)
    tl.store(gate + 3 * num_cells, g, mask=inside)
    tl.store(_at(new_cell, new_d, new_b, columns), c, mask=inside)
    tl.store(_at(memory, memory_d, memory_b, columns), o * _tanh(_clip(c, clip)), mask=inside)


@triton.jit
def _backward(
    gates, cell, new_cell, d_memory, d_cell, d_gates, memory,
    gates_d, gates_b, cell_d, cell_b, new_d, new_b, d_memory_d, d_memory_b,
    d_cell_d, d_cell_b, d_gates_d, d_gates_b, memory_d, memory_b,
    num_cells, clip_before, clip,
    BLOCK: tl.constexpr,
):  # fmt: skip
    columns, inside = _block(num_cells, BLOCK)
    i, f, o, g = _load_gates(_at(gates, gates_d, gates_b, columns), num_cells, inside)
    before = _load(_at(cell, cell_d, cell_b, columns), inside)
    after = _load(_at(new_cell, new_d, new_b, columns), inside)
    s = _tanh(_clip(after, clip))
    dm = _load(_at(d_memory, d_memory_d, d_memory_b, columns), inside)
    d_cells = _at(d_cell, d_cell_d, d_cell_b, columns)
    dc = _load(d_cells, inside) + dm * o * (1.0 - s * s)
    dc = tl.where(tl.abs(after) <= clip, dc, 0.0)  # as torch.clamp: gradients pass at the bounds
    d_gate = _at(d_gates, d_gates_d, d_gates_b, columns)
    tl.store(d_gate, dc * g * i * (1.0 - i), mask=inside)
    tl.store(d_gate + num_cells, dc * _clip(before, clip_before) * f * (1.0 - f), mask=inside)
    tl.store(d_gate + 2 * num_cells, dm * s * o * (1.0 - o), mask=inside)
    tl.store(d_gate + 3 * num_cells, dc * i * (1.0 - g * g), mask=inside)
    tl.store(d_cells, dc * f, mask=inside)
    tl.store(_at(memory, memory_d, memory_b, columns), o * s, mask=inside)
