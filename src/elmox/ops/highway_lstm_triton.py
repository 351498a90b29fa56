"""A highway LSTM's way through time on a GPU: one Triton kernel there, one back.

Rows know nothing of each other, so a program takes a block of them all the way, and nobody waits
for another one. Each step it reads all recurrent weights, which the GPU's cache holds. That keeps
few of a GPU's processors busy, but the host starts two kernels instead of two for every step, and
at a few dozen rows it is the host that takes the time.

At a step, a block of cells at a time: the products of all five gates are summed, so the step can be
finished. The step back has the same form: first the product that brings the gradient of what the
step gave, then the step's derivative. What one step writes, the next one reads, by other threads of
the same program: hence the barriers.

A product is in TF32 where torch's are, else the sum of three such, as exact as one in float32;
everything else is float32. Each element is summed by one program in one order, so results repeat
bit by bit. Only imported where Triton and a GPU are there.

Shapes: R rows, P words of them all, S steps, C cells; words are packed as
`elmox.tasks.highway_lstm.Packing` says. Gate order: input, forget, output, carry, candidate.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from elmox.ops.sizes import num_blocks
from elmox.ops.tf32 import triton_precision


class Tiles(NamedTuple):
    """What a program does at a time."""

    rows: int
    cells: int
    terms: int  # of each gate's sum
    num_warps: int
    num_stages: int  # of loading terms ahead


# The fewest rows that a tensor core takes: the more programs.
READ = Tiles(16, 32, 32, 4, 4)
GO_BACK = Tiles(16, 32, 32, 4, 4)


class TritonSteps:
    """Steps by Triton; see `Steps` of `elmox.tasks.highway_lstm`."""

    def __init__(
        self,
        recurrent: Tensor,
        mask: Tensor | None,
        sizes: tuple[int, ...],
        starts: Tensor,
        backward: bool,
    ) -> None:
        """See `Steps`."""
        self._weights = recurrent.contiguous(), mask
        self._num_rows, self._num_cells = sizes[0], recurrent.shape[1]
        self._steps = starts, len(sizes), backward

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """See `Steps`."""
        self._launch(_read, READ, products, cells, outputs)

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """See `Steps`."""
        d_cells = cells.new_empty(self._num_rows, self._num_cells)
        tensors = (products, cells, d_outputs.contiguous(), d_products, d_cells)
        self._launch(_go_back, GO_BACK, *tensors)

    def _launch(self, kernel: Any, tiles: Tiles, *tensors: Tensor) -> None:
        """One program for every block of rows."""
        *tile, num_warps, num_stages = tiles
        constants = (self._num_cells, *tile, triton_precision())
        kernel[(num_blocks(self._num_rows, tiles.rows),)](
            *tensors,
            *self._weights,
            *self._steps,
            *constants,
            num_warps=num_warps,
            num_stages=num_stages,
        )


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _load(place, where):
    return tl.load(place, mask=where, other=0.0).to(tl.float32)


@triton.jit
def _beside(starts, num_steps, step, LATER: tl.constexpr):
    """The step at one side: its first word, and how many rows have a word in both."""
    if LATER:
        start = tl.load(starts + step + 1)
        common = tl.load(starts + tl.minimum(step + 2, num_steps)) - start
    else:
        start = tl.load(starts + tl.maximum(step - 1, 0))
        common = tl.load(starts + step + 1) - tl.load(starts + step)
        common = tl.where(step > 0, common, 0)
    return start, common


@triton.jit(do_not_specialize=["num_steps"])
def _read(
    products, cells, outputs,
    recurrent, mask,
    starts, num_steps, BACKWARD: tl.constexpr,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds the hidden state's products to the gates, activates them, fills cells and outputs."""
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = num_steps - 1 - number if BACKWARD else number
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, LATER=BACKWARD)
        if first < size:
            for block in range(0, C, CELLS):
                columns = (block + tl.arange(0, CELLS))[None, :]
                inside = (rows < size) & (columns < C)
                place = (start + rows) * C + columns
                place_before = (before + rows) * C
                gate = products + (start + rows) * (6 * C) + columns
                i = _load(gate, inside)
                f = _load(gate + C, inside)
                o = _load(gate + 2 * C, inside)
                r = _load(gate + 3 * C, inside)
                g = _load(gate + 4 * C, inside)
                past = _load(gate + 5 * C, inside)
                c = _load(cells + place_before + columns, inside & (rows < known))
                if first < known:
                    for term in range(0, C, TERMS):
                        across = (term + tl.arange(0, TERMS))[None, :]
                        down = (term + tl.arange(0, TERMS))[:, None]
                        h = _load(outputs + place_before + across, (rows < known) & (across < C))
                        w = recurrent + columns * C + down
                        real = (columns < C) & (down < C)
                        i = tl.dot(h, _load(w, real), i, PRECISION)
                        f = tl.dot(h, _load(w + C * C, real), f, PRECISION)
                        o = tl.dot(h, _load(w + 2 * C * C, real), o, PRECISION)
                        r = tl.dot(h, _load(w + 3 * C * C, real), r, PRECISION)
                        g = tl.dot(h, _load(w + 4 * C * C, real), g, PRECISION)
                i, f, o, r, g = tl.sigmoid(i), tl.sigmoid(f), tl.sigmoid(o), tl.sigmoid(r), _tanh(g)
                c = i * g + f * c
                output = past + r * (o * _tanh(c) - past)
                if mask is not None:
                    output *= _load(mask + rows * C + columns, inside)
                tl.store(gate, i, mask=inside)
                tl.store(gate + C, f, mask=inside)
                tl.store(gate + 2 * C, o, mask=inside)
                tl.store(gate + 3 * C, r, mask=inside)
                tl.store(gate + 4 * C, g, mask=inside)
                tl.store(cells + place, c, mask=inside)
                tl.store(outputs + place, output, mask=inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_steps"])
def _go_back(
    products, cells, d_outputs, d_products, d_cells,
    recurrent, mask,
    starts, num_steps, BACKWARD: tl.constexpr,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fills the gradients of the products, those of the gates before activation.

    `d_cells` (R, C) is what the step that was read later adds to the gradient of the cell; replaced
    by what this one adds to that of the cell before.
    """
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = number if BACKWARD else num_steps - 1 - number
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, LATER=BACKWARD)
        after, common = _beside(starts, num_steps, step, LATER=not BACKWARD)
        if first < size:
            for block in range(0, C, CELLS):
                columns = (block + tl.arange(0, CELLS))[None, :]
                inside = (rows < size) & (columns < C)
                place = (start + rows) * C + columns
                gates = (start + rows) * (6 * C) + columns
                i = _load(products + gates, inside)
                f = _load(products + gates + C, inside)
                o = _load(products + gates + 2 * C, inside)
                r = _load(products + gates + 3 * C, inside)
                g = _load(products + gates + 4 * C, inside)
                past = _load(products + gates + 5 * C, inside)
                s = _tanh(_load(cells + place, inside))
                c = _load(cells + (before + rows) * C + columns, inside & (rows < known))
                d_cell = _load(d_cells + rows * C + columns, inside & (rows < common))
                d_output = _load(d_outputs + place, inside)
                if first < common:
                    d_after = d_products + (after + rows) * (6 * C)
                    for term in range(0, C, TERMS):
                        across = (term + tl.arange(0, TERMS))[None, :]
                        down = (term + tl.arange(0, TERMS))[:, None]
                        there = (rows < common) & (across < C)
                        real = (down < C) & (columns < C)
                        for gate in tl.static_range(5):
                            d = _load(d_after + gate * C + across, there)
                            w = _load(recurrent + gate * C * C + down * C + columns, real)
                            d_output = tl.dot(d, w, d_output, PRECISION)
                if mask is not None:
                    d_output *= _load(mask + rows * C + columns, inside)
                d_memory = d_output * r
                d_cell += d_memory * o * (1.0 - s * s)
                d_gate = d_products + gates
                tl.store(d_gate, d_cell * g * i * (1.0 - i), mask=inside)
                tl.store(d_gate + C, d_cell * c * f * (1.0 - f), mask=inside)
                tl.store(d_gate + 2 * C, d_memory * s * o * (1.0 - o), mask=inside)
                tl.store(d_gate + 3 * C, d_output * (o * s - past) * r * (1.0 - r), mask=inside)
                tl.store(d_gate + 4 * C, d_cell * i * (1.0 - g * g), mask=inside)
                tl.store(d_gate + 5 * C, d_output * (1.0 - r), mask=inside)
                tl.store(d_cells + rows * C + columns, d_cell * f, mask=inside)
        tl.debug_barrier()
