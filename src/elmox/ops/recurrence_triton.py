"""An LSTM's way through time on a GPU: one Triton kernel there, one back.

Either a bidirectional LSTM as torch has it, or one direction of an LSTM with highways.

Rows know nothing of each other, so a program takes a block of them all the way, and nobody waits
for another one. Each step it reads all recurrent weights, which the GPU's cache holds. That keeps
few of a GPU's processors busy; but the host starts one kernel instead of some for every step, and
at a few dozen rows it is the host that takes the time.

A step has two halves. First the products with the recurrent weights, block by block in one
pipelined loop: of the hidden state for the gates, on the way back of the gates' gradients for the
hidden state's. They go through memory to the second half, which is the rest of the step, value by
value: tensor cores lay out their sums as nothing else does. What one half writes, the next one
reads, by other threads of the same program: hence the barriers.

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

    rows: int  # 16 at least, for tensor cores; the fewer, the more programs
    cells: int
    terms: int  # of each gate's sum
    wide: int  # cells in a step's second half
    num_warps: int
    num_stages: int  # of loading terms ahead


READ = Tiles(16, 32, 32, 64, 4, 4)
GO_BACK = Tiles(16, 32, 32, 64, 4, 4)


class TritonRecurrence:
    """The way of packed rows through an LSTM layer, there and back.

    Args:
        recurrent: (D, G * C, C) weights: forward and backward; with highways of one direction.
        starts: (S + 1,) places of the steps' first words, and the number of words.
        num_rows: R.
        highway: whether there are highways: D is 1 and G 5 then, else 2 and 4.
        backward: whether the one direction is backward.
        mask: (R, C) by which what a highway gives is multiplied.
    """

    def __init__(
        self,
        recurrent: Tensor,
        starts: Tensor,
        num_rows: int,
        *,
        highway: bool = False,
        backward: bool = False,
        mask: Tensor | None = None,
    ) -> None:
        assert len(recurrent) == (1 if highway else 2)
        assert highway or not (backward or mask is not None)
        self._recurrent, self._mask, self._num_rows = recurrent.contiguous(), mask, num_rows
        self._starts, self._kind = starts, (backward, highway, recurrent.shape[2])

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """The way there.

        Args:
            products: (P, D * G * C) of the words, contiguous; with highways (P, 6C). The gates are
                replaced by the activated ones.
            cells, outputs: (P, D * C), to be filled.
        """
        sums = self._scratch(self._recurrent.shape[0] * self._recurrent.shape[1])
        self._launch(_read, READ, products, cells, outputs, sums)

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """The way back.

        Args:
            products, cells: as they were after `read`.
            d_outputs: (P, D * C) gradients of the outputs.
            d_products: to be filled: gradients of the products as they were given.
        """
        d_hidden, d_cells = (self._scratch(cells.shape[1]) for _ in range(2))
        tensors = (products, cells, d_outputs.contiguous(), d_products, d_hidden, d_cells)
        self._launch(_go_back, GO_BACK, *tensors)

    def _scratch(self, width: int) -> Tensor:
        """Something for every row."""
        return self._recurrent.new_empty(self._num_rows, width, dtype=torch.float32)

    def _launch(self, kernel: Any, tiles: Tiles, *tensors: Tensor) -> None:
        """One program for every block of rows and every direction."""
        *tile, num_warps, num_stages = tiles
        kernel[num_blocks(self._num_rows, tiles.rows), len(self._recurrent)](
            *tensors,
            self._recurrent,
            self._mask,
            self._starts,
            len(self._starts) - 1,
            *self._kind,
            *tile,
            triton_precision(),
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
    products, cells, outputs, sums,
    recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds the hidden state's products to the gates, activates them, fills cells and outputs.

    `sums` (R, D * G * C) are these products, for the step that is being read.
    """
    CANDIDATE: tl.constexpr = 4 * C if HIGHWAY else 2 * C
    OUTPUT: tl.constexpr = 2 * C if HIGHWAY else 3 * C
    CARRY: tl.constexpr = 3 * C
    PAST: tl.constexpr = 5 * C
    GATES: tl.constexpr = 5 * C if HIGHWAY else 4 * C
    PRODUCTS: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    DIRECTIONS: tl.constexpr = 1 if HIGHWAY else 2
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    products += direction * PRODUCTS
    cells += direction * C
    outputs += direction * C
    sums += direction * GATES
    recurrent += direction * (GATES * C)
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = tl.where(is_backward, num_steps - 1 - number, number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
        if first < known:
            hidden = outputs + (before + rows) * (DIRECTIONS * C)
            for block in tl.range(0, C, CELLS, flatten=True):
                columns = (block + tl.arange(0, CELLS))[None, :]
                i = tl.zeros([ROWS, CELLS], tl.float32)
                f, g, o, r = i, i, i, i
                for term in range(0, C, TERMS):
                    across = (term + tl.arange(0, TERMS))[None, :]
                    down = (term + tl.arange(0, TERMS))[:, None]
                    h = _load(hidden + across, (rows < known) & (across < C))
                    w = recurrent + columns * C + down
                    real = (columns < C) & (down < C)
                    i = tl.dot(h, _load(w, real), i, PRECISION)
                    f = tl.dot(h, _load(w + C * C, real), f, PRECISION)
                    g = tl.dot(h, _load(w + CANDIDATE * C, real), g, PRECISION)
                    o = tl.dot(h, _load(w + OUTPUT * C, real), o, PRECISION)
                    if HIGHWAY:
                        r = tl.dot(h, _load(w + CARRY * C, real), r, PRECISION)
                there = (rows < known) & (columns < C)
                place = sums + rows * (DIRECTIONS * GATES) + columns
                tl.store(place, i, mask=there)
                tl.store(place + C, f, mask=there)
                tl.store(place + CANDIDATE, g, mask=there)
                tl.store(place + OUTPUT, o, mask=there)
                if HIGHWAY:
                    tl.store(place + CARRY, r, mask=there)
        tl.debug_barrier()
        if first < size:
            for block in range(0, C, WIDE):
                columns = (block + tl.arange(0, WIDE))[None, :]
                inside = (rows < size) & (columns < C)
                there = inside & (rows < known)
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                own = sums + rows * (DIRECTIONS * GATES) + columns
                i = tl.sigmoid(_load(gate, inside) + _load(own, there))
                f = tl.sigmoid(_load(gate + C, inside) + _load(own + C, there))
                g = _tanh(_load(gate + CANDIDATE, inside) + _load(own + CANDIDATE, there))
                o = tl.sigmoid(_load(gate + OUTPUT, inside) + _load(own + OUTPUT, there))
                c = _load(cells + (before + rows) * (DIRECTIONS * C) + columns, there)
                c = i * g + f * c
                output = o * _tanh(c)
                if HIGHWAY:
                    r = tl.sigmoid(_load(gate + CARRY, inside) + _load(own + CARRY, there))
                    past = _load(gate + PAST, inside)
                    output = past + r * (output - past)
                    tl.store(gate + CARRY, r, mask=inside)
                    if mask is not None:
                        output *= _load(mask + rows * C + columns, inside)
                place = (start + rows) * (DIRECTIONS * C) + columns
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
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fills the gradients of the products, those of the gates before activation.

    `d_hidden` and `d_cells` (R, D * C) are what the step that was read later adds to the gradients
    of output and cell.
    """
    CANDIDATE: tl.constexpr = 4 * C if HIGHWAY else 2 * C
    OUTPUT: tl.constexpr = 2 * C if HIGHWAY else 3 * C
    CARRY: tl.constexpr = 3 * C
    PAST: tl.constexpr = 5 * C
    GATES: tl.constexpr = 5 * C if HIGHWAY else 4 * C
    PRODUCTS: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    DIRECTIONS: tl.constexpr = 1 if HIGHWAY else 2
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    products += direction * PRODUCTS
    d_products += direction * PRODUCTS
    cells += direction * C
    d_outputs += direction * C
    d_hidden += direction * C
    d_cells += direction * C
    recurrent += direction * (GATES * C)
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    for number in range(num_steps):
        step = tl.where(is_backward, number, num_steps - 1 - number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
        after, common = _beside(starts, num_steps, step, is_backward == 0)
        if first < common:
            d_after = d_products + (after + rows) * (DIRECTIONS * PRODUCTS)
            for block in tl.range(0, C, CELLS, flatten=True):
                columns = (block + tl.arange(0, CELLS))[None, :]
                # A sum for each gate: products of one sum would wait for each other.
                d0 = tl.zeros([ROWS, CELLS], tl.float32)
                d1, d2, d3, d4 = d0, d0, d0, d0
                for term in range(0, C, TERMS):
                    across = (term + tl.arange(0, TERMS))[None, :]
                    down = (term + tl.arange(0, TERMS))[:, None]
                    d = d_after + across
                    w = recurrent + down * C + columns
                    there = (rows < common) & (across < C)
                    real = (down < C) & (columns < C)
                    d0 = _plus(d0, d, there, w, real, PRECISION)
                    d1 = _plus(d1, d + C, there, w + C * C, real, PRECISION)
                    d2 = _plus(d2, d + 2 * C, there, w + 2 * C * C, real, PRECISION)
                    d3 = _plus(d3, d + 3 * C, there, w + 3 * C * C, real, PRECISION)
                    if HIGHWAY:
                        d4 = _plus(d4, d + 4 * C, there, w + 4 * C * C, real, PRECISION)
                place = d_hidden + rows * (DIRECTIONS * C) + columns
                tl.store(place, d0 + d1 + d2 + d3 + d4, mask=(rows < common) & (columns < C))
        tl.debug_barrier()
        if first < size:
            for block in range(0, C, WIDE):
                columns = (block + tl.arange(0, WIDE))[None, :]
                inside = (rows < size) & (columns < C)
                there = inside & (rows < common)
                own = rows * (DIRECTIONS * C) + columns
                place = (start + rows) * (DIRECTIONS * C) + columns
                place_before = (before + rows) * (DIRECTIONS * C) + columns
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                d_gate = d_products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                d_output = _load(d_outputs + place, inside) + _load(d_hidden + own, there)
                i = _load(gate, inside)
                f = _load(gate + C, inside)
                g = _load(gate + CANDIDATE, inside)
                o = _load(gate + OUTPUT, inside)
                s = _tanh(_load(cells + place, inside))
                c = _load(cells + place_before, inside & (rows < known))
                if HIGHWAY:
                    if mask is not None:
                        d_output *= _load(mask + own, inside)
                    r = _load(gate + CARRY, inside)
                    past = _load(gate + PAST, inside)
                    tl.store(d_gate + CARRY, d_output * (o * s - past) * r * (1.0 - r), mask=inside)
                    tl.store(d_gate + PAST, d_output * (1.0 - r), mask=inside)
                    d_output *= r
                d_cell = _load(d_cells + own, there) + d_output * o * (1.0 - s * s)
                tl.store(d_gate, d_cell * g * i * (1.0 - i), mask=inside)
                tl.store(d_gate + C, d_cell * c * f * (1.0 - f), mask=inside)
                tl.store(d_gate + CANDIDATE, d_cell * i * (1.0 - g * g), mask=inside)
                tl.store(d_gate + OUTPUT, d_output * s * o * (1.0 - o), mask=inside)
                tl.store(d_cells + own, d_cell * f, mask=inside)
        tl.debug_barrier()
