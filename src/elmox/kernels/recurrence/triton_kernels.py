"""The recurrence of an LSTM layer on a GPU: one Triton kernel forward, one backward.

Either a bidirectional LSTM as torch has it, or one direction of an LSTM with highway connections.

Rows are independent, so a program takes a block of them through all steps and never waits for
another program. In each step it reads all recurrent weights, which the GPU's cache holds. That
keeps few of a GPU's processors busy. But the host launches one kernel instead of several per step,
and at a few dozen rows the host's time is the longer one.

A step has two halves. The first computes the products with the recurrent weights, block by block in
one pipelined loop: of the hidden state for the gates, in the backward pass of the gates' gradients
for those of the hidden state. They go through memory to the second half, which is the point-wise
rest of the step, since tensor cores lay out their sums in their own way. What one half writes is
read by other threads of the same program in the next half: hence the barriers. Memory that only the
two halves share is padded with zeros to whole blocks.

Where torch's products are in TF32, the factors here are in float16, which has as many bits of
precision, half the bytes, and a smaller range: gradients are scaled into it by the largest one.
Otherwise a product is the sum of three in TF32, as exact as one in float32. Everything else is
float32. Each element is summed by one program in one order, so results repeat bit by bit. Only
imported where Triton and a GPU are present.

Shapes: R rows, P words of all rows, S steps, D directions, C cells, G gates; words are packed as in
`packing.py`. B is R rounded up to whole blocks, W is C rounded up to whole blocks. Order of the
gates: input, forget, candidate, output, as torch's LSTM has them; with highways input, forget,
output, carry, candidate, and the highway's product after them.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from elmox.kernels.sizes import num_blocks
from elmox.kernels.tf32 import triton_precision


class Tiles(NamedTuple):
    """Sizes of what a program processes together."""

    rows: int  # at least 16, for tensor cores; fewer rows give more programs
    cells: int
    terms: int  # of each gate's sum
    wide: int  # cells in a step's second half
    num_warps: int
    num_stages: int  # of loading terms ahead


FLOAT16 = Tiles(16, 64, 64, 64, 4, 4)
SMALL_FLOAT16 = Tiles(16, 64, 32, 64, 4, 3)  # for GPUs with less shared memory
FLOAT32 = Tiles(16, 32, 32, 64, 4, 3)
MUCH_SHARED = 160 * 1024  # bytes of shared memory that the first tiles take
BLOCK = 64  # a multiple of all blocks of cells
_CARRY = tl.constexpr(3)  # index of the carry gate among the gates of a layer with highways
_PAST = tl.constexpr(5)  # index of the highway's product


class TritonRecurrence:
    """The steps of packed rows through an LSTM layer, forward and backward.

    Args:
        recurrent: (D, G * C, C) weights: forward and backward; with highways of one direction.
        starts: (S + 1,) indices of the steps' first words, and the number of words.
        num_rows: R.
        highway: whether there are highways: then D is 1 and G is 5, otherwise 2 and 4.
        backward: whether the one direction reads from right to left.
        mask: (R, C) factors of the outputs of a layer with highways.
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
        num_cells = recurrent.shape[2]
        self._dtype = torch.float16 if triton_precision() == "tf32" else torch.float32
        self._tiles = _tiles(self._dtype, recurrent.device)
        self._recurrent, self._mask = recurrent.unflatten(1, (-1, num_cells)), mask
        self._num_blocks = num_blocks(num_rows, self._tiles.rows)
        self._width = BLOCK * num_blocks(num_cells, BLOCK)
        self._starts, self._kind = starts, (backward, highway, num_cells, self._width)
        self._layout = {
            "CANDIDATE": 4 if highway else 2,
            "OUTPUT": 2 if highway else 3,
            "GATES": 5 if highway else 4,
            "PRODUCTS": (6 if highway else 4) * num_cells,
            "DIRECTIONS": 1 if highway else 2,
        }

    def forward(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """Run all steps; see `Steps`.

        Args:
            products: (P, D * G * C) of the words, contiguous; with highways (P, 6C). The gates are
                replaced by the activated ones.
            cells, outputs: (P, D * C), filled here.
        """
        hidden, sums = self._scratch(1, self._dtype), self._scratch(self._recurrent.shape[1])
        self._launch(_forward, self._recurrent, products, cells, outputs, hidden, sums)

    def backward(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """Run all steps of the backward pass; see `Steps`.

        Args:
            products, cells: as they are after `forward`.
            d_outputs: (P, D * C) gradients of the outputs.
            d_products: filled with the gradients of the original products.
        """
        largest = torch.linalg.vector_norm(d_outputs, float("inf"), dtype=torch.float32)
        d_gates = self._scratch(self._recurrent.shape[1], self._dtype)
        d_hidden, d_cells = (self._scratch(1) for _ in range(2))
        tensors = (products, cells, d_outputs.contiguous(), d_products, d_gates, d_hidden, d_cells)
        self._launch(_backward, self._recurrent.mT, *tensors, largest)

    def _scratch(self, parts: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return padded memory of some parts per direction and row: (D, B, parts, W)."""
        shape = len(self._recurrent), self._num_blocks * self._tiles.rows, parts, self._width
        return torch.empty(shape, dtype=dtype, device=self._recurrent.device)

    def _launch(self, kernel: Any, weights: Tensor, *tensors: Tensor) -> None:
        """Launch one program per block of rows and direction.

        `weights` are (D, G, C, C), the terms of a sum last, so that many are loaded at once.
        """
        *tile, num_warps, num_stages = self._tiles
        padded = weights.new_zeros(*weights.shape[:2], self._width, self._width, dtype=self._dtype)
        padded[:, :, : weights.shape[2], : weights.shape[3]] = weights
        kernel[self._num_blocks, len(weights)](
            *tensors,
            padded,
            self._mask,
            self._starts,
            len(self._starts) - 1,
            *self._kind,
            *tile,
            triton_precision(),
            **self._layout,
            num_warps=num_warps,
            num_stages=num_stages,
        )


def _tiles(dtype: torch.dtype, device: torch.device) -> Tiles:
    if dtype == torch.float32:
        return FLOAT32
    is_small = device.type == "cuda" and _shared_memory(device) < MUCH_SHARED
    return SMALL_FLOAT16 if is_small else FLOAT16


@cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a program can have."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(index)["max_shared_mem"])


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _load(pointer, inside):
    return tl.load(pointer, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _store_padded(pointer, value, scale):
    """Store a factor of a product: in float16 scaled, and never infinite."""
    if pointer.dtype.element_ty == tl.float16:
        value = tl.clamp(value * scale, -65504.0, 65504.0)
    tl.store(pointer, value)


@triton.jit
def _store_gradient(pointer, inside, padded, value, scale):
    """Store a gradient for the caller and for the step before."""
    tl.store(pointer, value, mask=inside)
    _store_padded(padded, value, scale)


@triton.jit
def _rows(BACKWARD: tl.constexpr, ROWS: tl.constexpr):
    """Return the program's direction, whether it reads from the right, and its rows.

    Rows come as the first, all of them, and all of them in padded memory.
    """
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    return direction, is_backward, first, rows, direction * (tl.num_programs(0) * ROWS) + rows


@triton.jit
def _words(starts, step):
    """Return the first word of a step and the number of its words."""
    start = tl.load(starts + step)
    return start, tl.load(starts + step + 1) - start


@triton.jit
def _neighbor(starts, num_steps, step, is_later):
    """Return the first word of the step before or after, and the rows with a word in both."""
    other = tl.where(is_later, step + 1, tl.maximum(step - 1, 0))
    later = tl.where(is_later, step + 1, step)  # rows fall in length: those of the later have both
    start = tl.load(starts + other)
    end = tl.load(starts + tl.minimum(later + 1, num_steps))
    common = end - tl.load(starts + later)
    return start, tl.where(is_later | (step > 0), common, 0)


@triton.jit
def _step(starts, num_steps, step, is_backward):
    """Return the words of a step, and the rows with a state from the step read before it."""
    start, size = _words(starts, step)
    before, known = _neighbor(starts, num_steps, step, is_backward)
    return start, size, before, known


@triton.jit(do_not_specialize=["num_steps"])
def _forward(
    products, cells, outputs, hidden, sums, recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, CANDIDATE: tl.constexpr, OUTPUT: tl.constexpr,
    GATES: tl.constexpr, PRODUCTS: tl.constexpr, DIRECTIONS: tl.constexpr,
):  # fmt: skip
    """Add the hidden state's products to the gates, activate them, fill cells and outputs.

    For the current step, `hidden` (D, B, 1, W) is the state before it, `sums` (D, B, G, W) its
    products.
    """
    direction, is_backward, first, rows, padded_rows = _rows(BACKWARD, ROWS)
    products += direction * PRODUCTS
    cells, outputs = cells + direction * C, outputs + direction * C
    hidden += padded_rows * W
    sums += padded_rows * (GATES * W)
    recurrent += direction * (GATES * W * W)
    for number in range(num_steps):
        step = tl.where(is_backward, num_steps - 1 - number, number)
        start, size, before, known = _step(starts, num_steps, step, is_backward)
        if first < known:
            for block in tl.range(0, W, CELLS, flatten=True):
                columns = (block + tl.arange(0, CELLS))[None, :]
                i = tl.zeros([ROWS, CELLS], tl.float32)
                f, g, o, r = i, i, i, i
                for term in range(0, W, TERMS):
                    h = tl.load(hidden + (term + tl.arange(0, TERMS))[None, :])
                    w = recurrent + columns * W + (term + tl.arange(0, TERMS))[:, None]
                    i = tl.dot(h, tl.load(w), i, PRECISION)
                    f = tl.dot(h, tl.load(w + W * W), f, PRECISION)
                    g = tl.dot(h, tl.load(w + CANDIDATE * W * W), g, PRECISION)
                    o = tl.dot(h, tl.load(w + OUTPUT * W * W), o, PRECISION)
                    if HIGHWAY:
                        r = tl.dot(h, tl.load(w + _CARRY * W * W), r, PRECISION)
                recur = sums + columns
                tl.store(recur, i)
                tl.store(recur + W, f)
                tl.store(recur + CANDIDATE * W, g)
                tl.store(recur + OUTPUT * W, o)
                if HIGHWAY:
                    tl.store(recur + _CARRY * W, r)
        tl.debug_barrier()
        if first < size:
            for block in range(0, W, WIDE):
                columns = (block + tl.arange(0, WIDE))[None, :]
                inside = (rows < size) & (columns < C)
                prior = inside & (rows < known)  # rows with a state before
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                recur = sums + columns
                i = tl.sigmoid(_load(gate, inside) + _load(recur, prior))
                f = tl.sigmoid(_load(gate + C, inside) + _load(recur + W, prior))
                g = _tanh(_load(gate + CANDIDATE * C, inside) + _load(recur + CANDIDATE * W, prior))
                o = tl.sigmoid(_load(gate + OUTPUT * C, inside) + _load(recur + OUTPUT * W, prior))
                c = _load(cells + (before + rows) * (DIRECTIONS * C) + columns, prior)
                c = i * g + f * c
                output = o * _tanh(c)
                if HIGHWAY:
                    r = tl.sigmoid(
                        _load(gate + _CARRY * C, inside) + _load(recur + _CARRY * W, prior)
                    )
                    past = _load(gate + _PAST * C, inside)
                    output = past + r * (output - past)
                    tl.store(gate + _CARRY * C, r, mask=inside)
                    if mask is not None:
                        output *= _load(mask + rows * C + columns, inside)
                word = (start + rows) * (DIRECTIONS * C) + columns
                tl.store(gate, i, mask=inside)
                tl.store(gate + C, f, mask=inside)
                tl.store(gate + CANDIDATE * C, g, mask=inside)
                tl.store(gate + OUTPUT * C, o, mask=inside)
                tl.store(cells + word, c, mask=inside)
                tl.store(outputs + word, output, mask=inside)
                _store_padded(hidden + columns, output, 1.0)  # zero outside
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_steps"])
def _backward(
    products, cells, d_outputs, d_products, d_gates, d_hidden, d_cells, largest, recurrent, mask,
    starts, num_steps,
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr, CANDIDATE: tl.constexpr, OUTPUT: tl.constexpr,
    GATES: tl.constexpr, PRODUCTS: tl.constexpr, DIRECTIONS: tl.constexpr,
):  # fmt: skip
    """Fill the gradients of the products, those of the gates before activation.

    The step that was read later passes on `d_gates` (D, B, G, W), its gates' gradients, scaled by
    the `largest` of the outputs', and its parts of the gradients of output and cell, `d_hidden` and
    `d_cells` (D, B, 1, W).
    """
    direction, is_backward, first, rows, padded_rows = _rows(BACKWARD, ROWS)
    products, d_products = products + direction * PRODUCTS, d_products + direction * PRODUCTS
    cells, d_outputs = cells + direction * C, d_outputs + direction * C
    d_gates += padded_rows * (GATES * W)
    d_hidden, d_cells = d_hidden + padded_rows * W, d_cells + padded_rows * W
    recurrent += direction * (GATES * W * W)
    exponent = tl.ceil(tl.log2(tl.maximum(tl.load(largest), 1e-30)))
    scale = tl.exp2(-exponent)
    unscale = 1.0
    if d_gates.dtype.element_ty == tl.float16:
        unscale = tl.exp2(exponent)
    for number in range(num_steps):
        step = tl.where(is_backward, number, num_steps - 1 - number)
        start, size, before, known = _step(starts, num_steps, step, is_backward)
        _, common = _neighbor(starts, num_steps, step, is_backward == 0)
        if first < common:
            for block in tl.range(0, W, CELLS, flatten=True):
                columns = (block + tl.arange(0, CELLS))[None, :]
                # One sum per gate: products of a single sum would wait for each other.
                d0 = tl.zeros([ROWS, CELLS], tl.float32)
                d1, d2, d3, d4 = d0, d0, d0, d0
                for term in range(0, W, TERMS):
                    d = d_gates + (term + tl.arange(0, TERMS))[None, :]
                    w = recurrent + columns * W + (term + tl.arange(0, TERMS))[:, None]
                    d0 = tl.dot(tl.load(d), tl.load(w), d0, PRECISION)
                    d1 = tl.dot(tl.load(d + W), tl.load(w + W * W), d1, PRECISION)
                    d2 = tl.dot(tl.load(d + 2 * W), tl.load(w + 2 * W * W), d2, PRECISION)
                    d3 = tl.dot(tl.load(d + 3 * W), tl.load(w + 3 * W * W), d3, PRECISION)
                    if HIGHWAY:
                        d4 = tl.dot(tl.load(d + 4 * W), tl.load(w + 4 * W * W), d4, PRECISION)
                tl.store(d_hidden + columns, (d0 + d1 + d2 + d3 + d4) * unscale)
        tl.debug_barrier()
        if first < size:
            for block in range(0, W, WIDE):
                columns = (block + tl.arange(0, WIDE))[None, :]
                inside = (rows < size) & (columns < C)
                has_next = inside & (rows < common)
                word = (start + rows) * (DIRECTIONS * C) + columns
                word_before = (before + rows) * (DIRECTIONS * C) + columns
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                d_gate = d_products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                padded = d_gates + columns
                d_output = _load(d_outputs + word, inside) + _load(d_hidden + columns, has_next)
                i = _load(gate, inside)
                f = _load(gate + C, inside)
                g = _load(gate + CANDIDATE * C, inside)
                o = _load(gate + OUTPUT * C, inside)
                s = _tanh(_load(cells + word, inside))
                c = _load(cells + word_before, inside & (rows < known))
                if HIGHWAY:
                    if mask is not None:
                        d_output *= _load(mask + rows * C + columns, inside)
                    r = _load(gate + _CARRY * C, inside)
                    past = _load(gate + _PAST * C, inside)
                    d = d_output * (o * s - past) * r * (1.0 - r)
                    _store_gradient(d_gate + _CARRY * C, inside, padded + _CARRY * W, d, scale)
                    tl.store(d_gate + _PAST * C, d_output * (1.0 - r), mask=inside)
                    d_output *= r
                d_cell = _load(d_cells + columns, has_next) + d_output * o * (1.0 - s * s)
                d = d_cell * g * i * (1.0 - i)
                _store_gradient(d_gate, inside, padded, d, scale)
                d = d_cell * c * f * (1.0 - f)
                _store_gradient(d_gate + C, inside, padded + W, d, scale)
                d = d_cell * i * (1.0 - g * g)
                _store_gradient(d_gate + CANDIDATE * C, inside, padded + CANDIDATE * W, d, scale)
                d = d_output * s * o * (1.0 - o)
                _store_gradient(d_gate + OUTPUT * C, inside, padded + OUTPUT * W, d, scale)
                tl.store(d_cells + columns, d_cell * f)
        tl.debug_barrier()
