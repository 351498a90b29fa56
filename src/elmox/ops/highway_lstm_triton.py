"""A highway LSTM's way through time on a GPU: one Triton kernel for a step, one for a step back.

In plain torch a step is a dozen launches and more, and at a few dozen rows nothing but launches.
Here one program sums all five gates of a cell, so it can finish the step as well. The step back has
the same form: first the product that brings the gradient of what the step gave, then the step's
derivative. Kernels find a step's rows by numbers, so no views are made.

A product is in TF32 where torch's are, else the sum of three such, as exact as one in float32;
everything else is float32. Each element is summed by one program in one order, so results repeat
bit by bit. Only imported where Triton and a GPU are there.

Shapes: R rows, P words of them all, N rows that have a word at a step, C cells; words are packed as
`elmox.tasks.highway_lstm.Packing` says. Gate order: input, forget, output, carry, candidate.
"""

from itertools import accumulate, pairwise
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


# The least that keeps each warp's tensor core busy: the fewer rows and cells, the more programs.
READ = Tiles(16, 32, 32, 4, 4)
GO_BACK = Tiles(16, 32, 32, 4, 4)


class TritonSteps:
    """Steps by Triton; see `Steps` of `elmox.tasks.highway_lstm`."""

    def __init__(
        self, recurrent: Tensor, mask: Tensor | None, sizes: tuple[int, ...], backward: bool
    ) -> None:
        """See `Steps`."""
        self._recurrent, self._mask, self._num_rows = recurrent.contiguous(), mask, sizes[0]
        self._steps = _steps(sizes, backward)

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """See `Steps`."""
        launch = _Launch(_read, READ, cells.shape[1])
        tensors = (products, cells, outputs, self._recurrent, self._mask)
        for step in self._steps:
            launch(step.size, *tensors, *step)

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """See `Steps`."""
        launch = _Launch(_go_back, GO_BACK, cells.shape[1])
        d_cell = cells.new_empty(self._num_rows, cells.shape[1])
        states = (products, cells, self._recurrent, self._mask)
        tensors = (*states, d_outputs.contiguous(), d_products, d_cell)
        after, common = 0, 0
        for step in reversed(self._steps):
            launch(step.size, *tensors, *step, after, common)
            after, common = step.start, step.known


class _Step(NamedTuple):
    """Where a step is, and the one that is read before it."""

    start: int  # its first word
    size: int  # N
    before: int  # the first word of the one before
    known: int  # rows that have a word in both: the first ones


def _steps(sizes: tuple[int, ...], backward: bool) -> list[_Step]:
    """In the order in which they are read."""
    steps = [_Step(*own, 0, 0) for own in zip(accumulate(sizes, initial=0), sizes, strict=False)]
    if backward:
        steps.reverse()
    later = (
        own._replace(before=before.start, known=min(own.size, before.size))
        for before, own in pairwise(steps)
    )
    return [steps[0], *later]


class _Launch:
    """Launches a kernel again and again for the same tensors and other numbers.

    What Triton finds out about arguments is then the same each time, and costs the host more than
    the launch itself. So the first launch does it, and the others go past it. (The interpreter
    compiles nothing: with it each launch is a first one.)
    """

    def __init__(self, kernel: Any, tiles: Tiles, num_cells: int) -> None:
        *self._tile, num_warps, num_stages = tiles
        self._kernel, self._num_cells = kernel, num_cells
        self._precision = triton_precision()
        self._options = {"num_warps": num_warps, "num_stages": num_stages}
        self._num_blocks = num_blocks(num_cells, tiles.cells)
        self._compiled: Any = None

    def __call__(self, num_rows: int, *given: Tensor | int | None) -> None:
        """One program for every block of rows and cells."""
        grid = (num_blocks(num_rows, self._tile[0]), self._num_blocks, 1)
        arguments = (*given, self._num_cells, *self._tile, self._precision)
        if self._compiled is None:
            self._compiled = self._kernel[grid](*arguments, **self._options)
        else:
            self._compiled[grid](*arguments)


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _load(place, where):
    return tl.load(place, mask=where, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["start", "size", "before", "known"])
def _read(
    products, cells, outputs, recurrent, mask,
    start, size, before, known,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds the hidden state's products to the gates, activates them, fills cell and output."""
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    columns = (tl.program_id(1) * CELLS + tl.arange(0, CELLS))[None, :]
    inside = (rows < size) & (columns < C)
    place = (start + rows).to(tl.int64) * C + columns
    place_before = (before + rows).to(tl.int64) * C
    gate = products + (start + rows).to(tl.int64) * (6 * C) + columns
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


@triton.jit(do_not_specialize=["start", "size", "before", "known", "after", "common"])
def _go_back(
    products, cells, recurrent, mask, d_outputs, d_products, d_cells,
    start, size, before, known, after, common,
    C: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fills the gradients of a step's products, those of the gates before activation.

    `after` is the first word of the step that was read after this one, and its gradients are there;
    the first `common` rows have a word in both. `d_cells` (R, C) is what that step adds to the
    gradient of the cell; replaced by what this one adds to that of the cell before.
    """
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    columns = (tl.program_id(1) * CELLS + tl.arange(0, CELLS))[None, :]
    inside = (rows < size) & (columns < C)
    place = (start + rows).to(tl.int64) * C + columns
    place_before = (before + rows).to(tl.int64) * C + columns
    gates = (start + rows).to(tl.int64) * (6 * C) + columns
    i = _load(products + gates, inside)
    f = _load(products + gates + C, inside)
    o = _load(products + gates + 2 * C, inside)
    r = _load(products + gates + 3 * C, inside)
    g = _load(products + gates + 4 * C, inside)
    past = _load(products + gates + 5 * C, inside)
    s = _tanh(_load(cells + place, inside))
    c = _load(cells + place_before, inside & (rows < known))
    d_cell = _load(d_cells + rows * C + columns, inside & (rows < common))
    d_output = _load(d_outputs + place, inside)
    d_after = d_products + (after + rows).to(tl.int64) * (6 * C)
    if first < common:
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
