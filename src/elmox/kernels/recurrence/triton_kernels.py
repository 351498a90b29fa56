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
reads, by other threads of the same program: hence the barriers. What only the halves tell each
other is padded with zeros to whole blocks.

Where torch's products are in TF32, the factors of ours are in float16, which has as many bits for a
number, half the bytes, and a smaller range: gradients are brought into it by the largest one.
Elsewhere a product is the sum of three in TF32, as exact as one in float32. Everything else is
float32. Each element is summed by one program in one order, so results repeat bit by bit. Only
imported where Triton and a GPU are there.

Shapes: R rows, P words of them all, S steps, D directions, C cells, G gates; words are packed as in
`packing.py`. B is R in whole blocks, W is C in whole blocks. Order of the gates:
input, forget, candidate, output, as torch's LSTM has them; with highways input, forget, output,
carry, candidate, and what goes past them.
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
    """What a program does at a time."""

    rows: int  # 16 at least, for tensor cores; the fewer, the more programs
    cells: int
    terms: int  # of each gate's sum
    wide: int  # cells in a step's second half
    num_warps: int
    num_stages: int  # of loading terms ahead


FLOAT16 = Tiles(16, 64, 64, 64, 4, 4)
SMALL_FLOAT16 = Tiles(16, 64, 32, 64, 4, 3)  # for GPUs with less shared memory
FLOAT32 = Tiles(16, 32, 32, 64, 4, 3)
MUCH_SHARED = 160 * 1024  # bytes that a program can have: what the first tiles take
BLOCK = 64  # all blocks of cells divide it


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
        num_cells = recurrent.shape[2]
        self._dtype = torch.float16 if triton_precision() == "tf32" else torch.float32
        self._tiles = _tiles(self._dtype, recurrent.device)
        self._recurrent, self._mask = recurrent.unflatten(1, (-1, num_cells)), mask
        self._num_blocks = num_blocks(num_rows, self._tiles.rows)
        self._width = BLOCK * num_blocks(num_cells, BLOCK)
        self._starts, self._kind = starts, (backward, highway, num_cells, self._width)

    def read(self, products: Tensor, cells: Tensor, outputs: Tensor) -> None:
        """The way there.

        Args:
            products: (P, D * G * C) of the words, contiguous; with highways (P, 6C). The gates are
                replaced by the activated ones.
            cells, outputs: (P, D * C), to be filled.
        """
        hidden, sums = self._scratch(1, self._dtype), self._scratch(self._recurrent.shape[1])
        self._launch(_read, self._recurrent, products, cells, outputs, hidden, sums)

    def go_back(
        self, products: Tensor, cells: Tensor, d_outputs: Tensor, d_products: Tensor
    ) -> None:
        """The way back.

        Args:
            products, cells: as they were after `read`.
            d_outputs: (P, D * C) gradients of the outputs.
            d_products: to be filled: gradients of the products as they were given.
        """
        largest = torch.linalg.vector_norm(d_outputs, float("inf"), dtype=torch.float32)
        d_gates = self._scratch(self._recurrent.shape[1], self._dtype)
        d_hidden, d_cells = (self._scratch(1) for _ in range(2))
        tensors = (products, cells, d_outputs.contiguous(), d_products, d_gates, d_hidden, d_cells)
        self._launch(_go_back, self._recurrent.mT, *tensors, largest)

    def _scratch(self, parts: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """For each direction and row some parts, padded: (D, B, parts, W)."""
        shape = len(self._recurrent), self._num_blocks * self._tiles.rows, parts, self._width
        return torch.empty(shape, dtype=dtype, device=self._recurrent.device)

    def _launch(self, kernel: Any, weights: Tensor, *tensors: Tensor) -> None:
        """One program for every block of rows and every direction.

        `weights` are (D, G, C, C), the terms of a sum last: so they are loaded many at once.
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
    """Bytes that a program can have."""
    index = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(index)["max_shared_mem"])


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _load(place, where):
    return tl.load(place, mask=where, other=0.0).to(tl.float32)


@triton.jit
def _store_padded(place, value, scale):
    """As a factor of a product: in float16 scaled, and never infinite."""
    if place.dtype.element_ty == tl.float16:
        value = tl.clamp(value * scale, -65504.0, 65504.0)
    tl.store(place, value)


@triton.jit
def _store_gradient(place, inside, padded, value, scale):
    """For those who asked, and for the step before."""
    tl.store(place, value, mask=inside)
    _store_padded(padded, value, scale)


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
    products, cells, outputs, hidden, sums,
    recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds the hidden state's products to the gates, activates them, fills cells and outputs.

    For the step that is being read, `hidden` (D, B, 1, W) is the state before it, `sums`
    (D, B, G, W) its products.
    """
    CANDIDATE: tl.constexpr = 4 if HIGHWAY else 2
    OUTPUT: tl.constexpr = 2 if HIGHWAY else 3
    CARRY: tl.constexpr = 3
    PAST: tl.constexpr = 5
    GATES: tl.constexpr = 5 if HIGHWAY else 4
    PRODUCTS: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    DIRECTIONS: tl.constexpr = 1 if HIGHWAY else 2
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    padded_rows = direction * (tl.num_programs(0) * ROWS) + rows
    products += direction * PRODUCTS
    cells += direction * C
    outputs += direction * C
    hidden += padded_rows * W
    sums += padded_rows * (GATES * W)
    recurrent += direction * (GATES * W * W)
    for number in range(num_steps):
        step = tl.where(is_backward, num_steps - 1 - number, number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
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
                        r = tl.dot(h, tl.load(w + CARRY * W * W), r, PRECISION)
                place = sums + columns
                tl.store(place, i)
                tl.store(place + W, f)
                tl.store(place + CANDIDATE * W, g)
                tl.store(place + OUTPUT * W, o)
                if HIGHWAY:
                    tl.store(place + CARRY * W, r)
        tl.debug_barrier()
        if first < size:
            for block in range(0, W, WIDE):
                columns = (block + tl.arange(0, WIDE))[None, :]
                inside = (rows < size) & (columns < C)
                there = inside & (rows < known)
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                own = sums + columns
                i = tl.sigmoid(_load(gate, inside) + _load(own, there))
                f = tl.sigmoid(_load(gate + C, inside) + _load(own + W, there))
                g = _tanh(_load(gate + CANDIDATE * C, inside) + _load(own + CANDIDATE * W, there))
                o = tl.sigmoid(_load(gate + OUTPUT * C, inside) + _load(own + OUTPUT * W, there))
                c = _load(cells + (before + rows) * (DIRECTIONS * C) + columns, there)
                c = i * g + f * c
                output = o * _tanh(c)
                if HIGHWAY:
                    r = tl.sigmoid(_load(gate + CARRY * C, inside) + _load(own + CARRY * W, there))
                    past = _load(gate + PAST * C, inside)
                    output = past + r * (output - past)
                    tl.store(gate + CARRY * C, r, mask=inside)
                    if mask is not None:
                        output *= _load(mask + rows * C + columns, inside)
                place = (start + rows) * (DIRECTIONS * C) + columns
                tl.store(gate, i, mask=inside)
                tl.store(gate + C, f, mask=inside)
                tl.store(gate + CANDIDATE * C, g, mask=inside)
                tl.store(gate + OUTPUT * C, o, mask=inside)
                tl.store(cells + place, c, mask=inside)
                tl.store(outputs + place, output, mask=inside)
                _store_padded(hidden + columns, output, 1.0)  # zero outside
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_steps"])
def _go_back(
    products, cells, d_outputs, d_products, d_gates, d_hidden, d_cells, largest,
    recurrent, mask, starts, num_steps,
    BACKWARD: tl.constexpr, HIGHWAY: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    ROWS: tl.constexpr, CELLS: tl.constexpr, TERMS: tl.constexpr, WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Fills the gradients of the products, those of the gates before activation.

    From the step that was read later come `d_gates` (D, B, G, W), its gates' gradients, scaled by
    the `largest` of the outputs', and what it adds to the gradients of output and cell, `d_hidden`
    and `d_cells` (D, B, 1, W).
    """
    CANDIDATE: tl.constexpr = 4 if HIGHWAY else 2
    OUTPUT: tl.constexpr = 2 if HIGHWAY else 3
    CARRY: tl.constexpr = 3
    PAST: tl.constexpr = 5
    GATES: tl.constexpr = 5 if HIGHWAY else 4
    PRODUCTS: tl.constexpr = 6 * C if HIGHWAY else 4 * C
    DIRECTIONS: tl.constexpr = 1 if HIGHWAY else 2
    direction = tl.program_id(1)
    is_backward = (direction == 1) | BACKWARD
    first = tl.program_id(0) * ROWS
    rows = (first + tl.arange(0, ROWS))[:, None]
    padded_rows = direction * (tl.num_programs(0) * ROWS) + rows
    products += direction * PRODUCTS
    d_products += direction * PRODUCTS
    cells += direction * C
    d_outputs += direction * C
    d_gates += padded_rows * (GATES * W)
    d_hidden += padded_rows * W
    d_cells += padded_rows * W
    recurrent += direction * (GATES * W * W)
    exponent = tl.ceil(tl.log2(tl.maximum(tl.load(largest), 1e-30)))
    scale = tl.exp2(-exponent)
    unscale = 1.0
    if d_gates.dtype.element_ty == tl.float16:
        unscale = tl.exp2(exponent)
    for number in range(num_steps):
        step = tl.where(is_backward, number, num_steps - 1 - number)
        start = tl.load(starts + step)
        size = tl.load(starts + step + 1) - start
        before, known = _beside(starts, num_steps, step, is_backward)
        _, common = _beside(starts, num_steps, step, is_backward == 0)
        if first < common:
            for block in tl.range(0, W, CELLS, flatten=True):
                columns = (block + tl.arange(0, CELLS))[None, :]
                # A sum for each gate: products of one sum would wait for each other.
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
                there = inside & (rows < common)
                place = (start + rows) * (DIRECTIONS * C) + columns
                place_before = (before + rows) * (DIRECTIONS * C) + columns
                gate = products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                d_gate = d_products + (start + rows) * (DIRECTIONS * PRODUCTS) + columns
                d_own = d_gates + columns
                d_output = _load(d_outputs + place, inside) + _load(d_hidden + columns, there)
                i = _load(gate, inside)
                f = _load(gate + C, inside)
                g = _load(gate + CANDIDATE * C, inside)
                o = _load(gate + OUTPUT * C, inside)
                s = _tanh(_load(cells + place, inside))
                c = _load(cells + place_before, inside & (rows < known))
                if HIGHWAY:
                    if mask is not None:
                        d_output *= _load(mask + rows * C + columns, inside)
                    r = _load(gate + CARRY * C, inside)
                    past = _load(gate + PAST * C, inside)
                    d = d_output * (o * s - past) * r * (1.0 - r)
                    _store_gradient(d_gate + CARRY * C, inside, d_own + CARRY * W, d, scale)
                    tl.store(d_gate + PAST * C, d_output * (1.0 - r), mask=inside)
                    d_output *= r
                d_cell = _load(d_cells + columns, there) + d_output * o * (1.0 - s * s)
                d = d_cell * g * i * (1.0 - i)
                _store_gradient(d_gate, inside, d_own, d, scale)
                d = d_cell * c * f * (1.0 - f)
                _store_gradient(d_gate + C, inside, d_own + W, d, scale)
                d = d_cell * i * (1.0 - g * g)
                _store_gradient(d_gate + CANDIDATE * C, inside, d_own + CANDIDATE * W, d, scale)
                d = d_output * s * o * (1.0 - o)
                _store_gradient(d_gate + OUTPUT * C, inside, d_own + OUTPUT * W, d, scale)
                tl.store(d_cells + columns, d_cell * f)
        tl.debug_barrier()
