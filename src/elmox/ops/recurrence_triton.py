"""An LSTM's way through time on a GPU: one Triton kernel there, one back, with highways or without.

Rows know nothing of each other, so a program takes a block of them all the way, and nobody waits
for another one. Each step it reads all recurrent weights, which the GPU's cache holds. That keeps
few of a GPU's processors busy, but the host starts two kernels instead of some for every step, and
at a few dozen rows it is the host that takes the time.

At a step, a block of cells at a time: the products of all gates are summed, so the step can be
finished. The step back has the same form: first the product that brings the gradient of what the
step gave, then the step's derivative. What one step writes, the next one reads, by other threads of
the same program: hence the barriers.

A product is in TF32 where torch's are, else the sum of three such, as exact as one in float32;
everything else is float32. Each element is summed by one program in one order, so results repeat
bit by bit. Only imported where Triton and a GPU are there.

Shapes: R rows, P words of them all, S steps, D directions, C cells, G gates; words are packed as
`elmox.tasks.packing` says. Order of the gates: input, forget, candidate, output, as torch's LSTM
has them; with highways input, forget, output, carry, candidate, and what goes past them.
"""

from typing import Any, NamedTuple

import torch
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


class TritonRecurrence:
    """The way of packed rows through an LSTM layer, there and back.

    Args:
        recurrent: (D, G * C, C) weights; two directions are forward and backward.
        starts: (S + 1,) places of the steps' first words, and the number of words.
        num_rows: R.
        backward: whether a single direction is backward.
        highway: whether there are highways: G is 5 then, else 4.
        mask: (R, D * C) by which what a step gives is multiplied.
    """

    def __init__(
        self,
        recurrent: Tensor,
        starts: Tensor,
        num_rows: int,
        *,
        backward: bool = False,
        highway: bool = False,
        mask: Tensor | None = None,
    ) -> None:
        self._num_rows, (self._num_directions, _, self._num_cells) = num_rows, recurrent.shape
        self._given = recurrent.contiguous(), mask, starts, len(starts) - 1
        self._kind = backward, self._num_directions, highway

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """The way there.

        Args:
            products: (P, D * G * C) of the words, contiguous; with highways (P, 6 * D * C). The
                gates are replaced by the activated ones.
            cells, outputs: (P, D * C), to be filled.
        """
        self._launch(_read, READ, products, cells, outputs)

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """The way back.

        Args:
            products, cells: as they were after `read`.
            d_outputs: (P, D * C) gradients of the outputs.
            d_products: to be filled: gradients of the products as they were given.
        """
        carried = cells.new_empty(2, self._num_rows, cells.shape[1], dtype=torch.float32)
        tensors = (products, cells, d_outputs.contiguous(), d_products, *carried)
        self._launch(_go_back, GO_BACK, *tensors)

    def _launch(self, kernel: Any, tiles: Tiles, *tensors: Tensor) -> None:
        """One program for every block of rows and every direction."""
        *tile, num_warps, num_stages = tiles
        grid = (num_blocks(self._num_rows, tiles.rows), self._num_directions)
        constants = (*self._kind, self._num_cells, *tile, triton_precision())
        options = {"num_warps": num_warps, "num_stages": num_stages}
        kernel[grid](*tensors, *self._given, *constants, **options)


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _load(place, where):
    return tl.load(place, mask=where, other=0.0).to(tl.float32)


@triton.jit
def _plus(total, left, there, right, real, PRECISION: tl.constexpr):
    """A sum and the product of two blocks."""
    return tl.dot(_load(left, there), _load(right, real), total, PRECISION)


@triton.jit
def _beside(starts, num_steps, step, is_later):
    """The step at one side: its first word, and how many rows have a word in both."""
    other = tl.where(is_later, step + 1, tl.maximum(step - 1, 0))
    later = tl.where(is_later, step + 1, step)  # rows fall in length: who is here was there before
    start = tl.load(starts + other)
    end = tl.load(starts + tl.minimum(later + 1, num_steps))
    common = end - tl.load(starts + later)
    return start, tl.where(is_later | (step > 0), common, 0)


@triton.jit(do_not_specialize=["num_steps"])
def _read(
    products, cells, outputs,
    recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, DIRECTIONS: tl.constexpr, HIGHWAY: tl.constexpr,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds the hidden state's products to the gates, activates them, fills cells and outputs."""
    GATES: tl.constexpr = 5 if HIGHWAY else 4
    CANDIDATE: tl.constexpr = 4 * C if HIGHWAY else 2 * C
    OUTPUT: tl.constexpr = 2 * C if HIGHWAY else 3 * C
    CARRY: tl.constexpr = 3 * C
    PAST: tl.constexpr = 5 * C
    WIDTH: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    products += direction * WIDTH
    cells += direction * C
    outputs += direction * C
    recurrent += direction * (GATES * C * C)
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = tl.where(is_backward, num_steps - 1 - number, number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
        if first < size:
            for block in range(0, C, CELLS):
                columns = (block + tl.arange(0, CELLS))[None, :]
                inside = (rows < size) & (columns < C)
                place = (start + rows) * (DIRECTIONS * C) + columns
                place_before = (before + rows) * (DIRECTIONS * C)
                gate = products + (start + rows) * (DIRECTIONS * WIDTH) + columns
                i = tl.zeros([ROWS, CELLS], tl.float32)
                f, g, o, r = i, i, i, i
                if first < known:
                    for term in range(0, C, TERMS):
                        across = (term + tl.arange(0, TERMS))[None, :]
                        down = (term + tl.arange(0, TERMS))[:, None]
                        h = _load(outputs + place_before + across, (rows < known) & (across < C))
                        w = recurrent + columns * C + down
                        real = (columns < C) & (down < C)
                        i = tl.dot(h, _load(w, real), i, PRECISION)
                        f = tl.dot(h, _load(w + C * C, real), f, PRECISION)
                        g = tl.dot(h, _load(w + CANDIDATE * C, real), g, PRECISION)
                        o = tl.dot(h, _load(w + OUTPUT * C, real), o, PRECISION)
                        if HIGHWAY:
                            r = tl.dot(h, _load(w + CARRY * C, real), r, PRECISION)
                i = tl.sigmoid(i + _load(gate, inside))
                f = tl.sigmoid(f + _load(gate + C, inside))
                g = _tanh(g + _load(gate + CANDIDATE, inside))
                o = tl.sigmoid(o + _load(gate + OUTPUT, inside))
                c = _load(cells + place_before + columns, inside & (rows < known))
                c = i * g + f * c
                output = o * _tanh(c)
                if HIGHWAY:
                    r = tl.sigmoid(r + _load(gate + CARRY, inside))
                    past = _load(gate + PAST, inside)
                    output = past + r * (output - past)
                    tl.store(gate + CARRY, r, mask=inside)
                if mask is not None:
                    output *= _load(
                        mask + direction * C + rows * (DIRECTIONS * C) + columns, inside
                    )
                tl.store(gate, i, mask=inside)
                tl.store(gate + C, f, mask=inside)
                tl.store(gate + CANDIDATE, g, mask=inside)
                tl.store(gate + OUTPUT, o, mask=inside)
                tl.store(cells + place, c, mask=inside)
                tl.store(outputs + place, output, mask=inside)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_steps"])
def _go_back(
    products, cells, d_outputs, d_products, d_hidden, d_cells,
    recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, DIRECTIONS: tl.constexpr, HIGHWAY: tl.constexpr,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fills the gradients of the products, those of the gates before activation.

    `d_hidden` and `d_cells` (R, D * C) are what the step that was read later adds to the gradients
    of output and cell. All of `d_hidden` is there before it is used: it is not laid out in a
    program's registers as the rest is, and to move it there is cheapest through memory.
    """
    GATES: tl.constexpr = 5 if HIGHWAY else 4
    CANDIDATE: tl.constexpr = 4 * C if HIGHWAY else 2 * C
    OUTPUT: tl.constexpr = 2 * C if HIGHWAY else 3 * C
    CARRY: tl.constexpr = 3 * C
    PAST: tl.constexpr = 5 * C
    WIDTH: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    products += direction * WIDTH
    d_products += direction * WIDTH
    cells += direction * C
    d_outputs += direction * C
    recurrent += direction * (GATES * C * C)
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = tl.where(is_backward, number, num_steps - 1 - number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
        after, common = _beside(starts, num_steps, step, is_backward == 0)
        if first < size:
            if first < common:
                for block in range(0, C, CELLS):
                    columns = (block + tl.arange(0, CELLS))[None, :]
                    # A sum for each gate: the products of one would wait for each other.
                    d0 = tl.zeros([ROWS, CELLS], tl.float32)
                    d1, d2, d3, d4 = d0, d0, d0, d0
                    for term in range(0, C, TERMS):
                        across = (term + tl.arange(0, TERMS))[None, :]
                        down = (term + tl.arange(0, TERMS))[:, None]
                        d = d_products + (after + rows) * (DIRECTIONS * WIDTH) + across
                        w = recurrent + down * C + columns
                        there = (rows < common) & (across < C)
                        real = (down < C) & (columns < C)
                        d0 = _plus(d0, d, there, w, real, PRECISION)
                        d1 = _plus(d1, d + C, there, w + C * C, real, PRECISION)
                        d2 = _plus(d2, d + 2 * C, there, w + 2 * C * C, real, PRECISION)
                        d3 = _plus(d3, d + 3 * C, there, w + 3 * C * C, real, PRECISION)
                        if HIGHWAY:
                            d4 = _plus(d4, d + 4 * C, there, w + 4 * C * C, real, PRECISION)
                    row = direction * C + rows * (DIRECTIONS * C) + columns
                    real = (rows < common) & (columns < C)
                    tl.store(d_hidden + row, d0 + d1 + d2 + d3 + d4, mask=real)
                tl.debug_barrier()
            for block in range(0, C, CELLS):
                columns = (block + tl.arange(0, CELLS))[None, :]
                inside = (rows < size) & (columns < C)
                place = (start + rows) * (DIRECTIONS * C) + columns
                place_before = (before + rows) * (DIRECTIONS * C) + columns
                gates = (start + rows) * (DIRECTIONS * WIDTH) + columns
                row = direction * C + rows * (DIRECTIONS * C) + columns
                d_output = _load(d_outputs + place, inside)
                d_output += _load(d_hidden + row, inside & (rows < common))
                if mask is not None:
                    d_output *= _load(mask + row, inside)
                i = _load(products + gates, inside)
                f = _load(products + gates + C, inside)
                g = _load(products + gates + CANDIDATE, inside)
                o = _load(products + gates + OUTPUT, inside)
                s = _tanh(_load(cells + place, inside))
                c = _load(cells + place_before, inside & (rows < known))
                d_gate = d_products + gates
                if HIGHWAY:
                    r = _load(products + gates + CARRY, inside)
                    past = _load(products + gates + PAST, inside)
                    tl.store(d_gate + CARRY, d_output * (o * s - past) * r * (1.0 - r), mask=inside)
                    tl.store(d_gate + PAST, d_output * (1.0 - r), mask=inside)
                    d_output *= r
                d_cell = _load(d_cells + row, inside & (rows < common))
                d_cell += d_output * o * (1.0 - s * s)
                tl.store(d_gate, d_cell * g * i * (1.0 - i), mask=inside)
                tl.store(d_gate + C, d_cell * c * f * (1.0 - f), mask=inside)
                tl.store(d_gate + CANDIDATE, d_cell * i * (1.0 - g * g), mask=inside)
                tl.store(d_gate + OUTPUT, d_output * s * o * (1.0 - o), mask=inside)
                tl.store(d_cells + row, d_cell * f, mask=inside)
        tl.debug_barrier()
