"""The character CNN on a GPU, with the max inside the convolution: Triton kernels, and their host.

A window of `width` characters is `width * E` neighboring numbers of an embedded word, so a
convolution is a product of overlapping rows with one matrix of all filters, narrow ones filled up
with zeros. The sums never reach memory: a program keeps the best sum and its position in registers
while it moves along the words. Words are sorted by length, and a block of them uses only as many
slots as its longest word needs (see `CharCnn.slots_needed`).

In the backward pass, a filter's gradient is a sum over its winning windows, which are looked up. A
character's gradient needs sums over filters: products of (the gradient where this position won)
with the filters, window by window; then a one-hot product sums windows into the table of
characters. Partial sums are stored and added in a fixed order: runs repeat bit by bit.

Precision: products of bfloat16 or float16 numbers are summed in float32, on tensor cores. Float32
weights without autocast are multiplied in float32, exactly and more slowly.

Shapes: U words, C slots, E character embedding, F filters, K padded window. NaN stays NaN.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.config import CharCnnConfig
from elmox.kernels.char_cnn.dispatch import CharCnnWeights

_NO_WINNER = tl.constexpr(255)  # where relu passes nothing
_MAX_SLOTS = 255


@dataclass(frozen=True)
class Tiles:
    """Tile sizes of the kernels, with warps and stages of loading."""

    words: int  # of a block
    pool: tuple[int, int, int, int]  # words (a part of a block), filters, warps, stages
    windows: tuple[int, int, int]  # filters, warps, stages


# By the bytes of a padded window: as large as a multiprocessor's registers and memory allow.
TILES = {
    256: Tiles(words=128, pool=(64, 64, 4, 3), windows=(32, 8, 3)),
    512: Tiles(words=64, pool=(64, 64, 8, 2), windows=(32, 8, 2)),
    1024: Tiles(words=64, pool=(64, 32, 4, 2), windows=(32, 8, 2)),
    2048: Tiles(words=32, pool=(32, 16, 4, 1), windows=(16, 8, 1)),
}
NUMBERS = 4096  # of a tile that is summed without products
UNROLL = 4  # words whose windows are looked up together
WORD_CHUNKS = 32  # partial sums of the filters' gradient
TABLE_CHUNKS = 256  # partial sums of the characters' gradient
CHARACTERS = (128, 8, 2)  # characters, warps, stages


class Plan(NamedTuple):
    """Words in blocks by length, on the GPU, int32. A task is one window position of a block."""

    order: Tensor  # (U,) the words, shortest first
    slots: Tensor  # (blocks,) slots that its longest word needs
    starts: Tensor  # (blocks,) its first task
    blocks: Tensor  # (tasks,) the task's block
    widths: Tensor  # (F,)
    offsets: Tensor  # (F,) start of a filter among all weights


class Shape:
    """Sizes and launch parameters that are the same for all batches."""

    def __init__(self, config: CharCnnConfig, dtype: torch.dtype) -> None:
        self.config, self.dtype = config, dtype
        self.widest = max(width for width, _ in config.filters)
        self.narrowest = min(width for width, _ in config.filters)
        self.embedding = max(16, triton.next_power_of_2(config.embedding_dim))
        self.taps = triton.next_power_of_2(self.widest)
        self.window = self.embedding * self.taps
        num_bytes = max(min(TILES), self.window * dtype.itemsize)
        self.tiles = TILES.get(num_bytes)
        # A window with a slot to spare holds two positions of every filter: half the loads.
        self.shifts = 2 if self.taps > self.widest and num_bytes == min(TILES) else 1
        self.precision = "ieee"  # of float32 products; 16-bit numbers have only one
        self.num_weights = config.embedding_dim * sum(w * count for w, count in config.filters)
        self.filters_summed = max(1, NUMBERS // self.window)


def fits(config: CharCnnConfig, dtype: torch.dtype) -> bool:
    """Return whether the kernels apply: positions must fit in a byte, windows in a tile."""
    return config.max_characters <= _MAX_SLOTS and Shape(config, dtype).tiles is not None


def working_dtype(weight: Tensor) -> torch.dtype:
    """Return the data type of a product with this weight: autocast's choice, or its own."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


def char_cnn(
    config: CharCnnConfig, characters: Tensor, lengths: Tensor | None, weights: CharCnnWeights
) -> Tensor:
    """Convolve, take the max over positions, activate; see `dispatch.triton_char_cnn`. U > 0."""
    table, filters, biases = weights
    shape = Shape(config, working_dtype(table))
    plan = make_plan(shape, len(characters), lengths, characters.device)
    flat = torch.cat([*(weight.flatten() for weight in filters), *biases])
    characters = characters.contiguous()
    if torch.is_grad_enabled() and (table.requires_grad or flat.requires_grad):
        return cast(Tensor, _CharCnn.apply(table, flat, characters, plan, shape))
    embedded, packed = _prepare(shape, plan, characters, table, flat)
    return _pool_words(shape, plan, embedded, packed, flat, None)


def make_plan(shape: Shape, num_words: int, lengths: Tensor | None, device: torch.device) -> Plan:
    """Sort words by length and cut them into blocks; one small copy to the GPU."""
    config, tiles = shape.config, shape.tiles
    assert tiles is not None
    used = np.full(num_words, config.max_characters) if lengths is None else lengths.numpy()
    # NumPy sorts bytes by counting.
    order = np.argsort(used.astype(np.uint8), kind="stable")
    last = np.minimum(np.arange(tiles.words, num_words + tiles.words, tiles.words), num_words) - 1
    slots = np.minimum(config.max_characters, used[order[last]] + shape.widest)
    num_tasks = -(-(slots - shape.narrowest + 1) // shape.shifts)
    widths = np.repeat(*np.array(config.filters).T)
    sizes = widths * config.embedding_dim
    parts: list[NDArray[np.integer[Any]]] = [
        order, slots, np.cumsum(num_tasks) - num_tasks, np.repeat(np.arange(len(last)), num_tasks),
        widths, np.cumsum(sizes) - sizes,
    ]  # fmt: skip
    # Each part begins at a multiple of 16 bytes: Triton compiles again for another alignment.
    starts = np.cumsum([0, *(-(-len(part) // 4) * 4 for part in parts)]).tolist()
    whole = torch.empty(starts[-1], dtype=torch.int32, pin_memory=device.type == "cuda")
    for start, part in zip(starts, parts, strict=False):
        whole.numpy()[start : start + len(part)] = part
    whole = whole.to(device, non_blocking=True)
    return Plan(*(whole[a : a + len(part)] for a, part in zip(starts, parts, strict=False)))


class _CharCnn(torch.autograd.Function):
    """The operation of `char_cnn`, with gradients for the table and for all weights and biases."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, flat: Tensor, characters: Tensor, plan: Plan, shape: Shape
    ) -> Tensor:
        embedded, packed = _prepare(shape, plan, characters, table, flat)
        winners = torch.empty(
            (len(characters), shape.config.num_filters), dtype=torch.uint8, device=table.device
        )
        pooled = _pool_words(shape, plan, embedded, packed, flat, winners)
        activated = pooled if shape.config.activation == "tanh" else None
        ctx.save_for_backward(characters, embedded, packed, winners, activated)
        ctx.plan, ctx.shape, ctx.dtypes = plan, shape, (table.dtype, flat.dtype)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        plan, shape = ctx.plan, ctx.shape
        characters, embedded, packed, winners, activated = ctx.saved_tensors
        if activated is not None:
            gradient = torch.ops.aten.tanh_backward(gradient, activated)
        gradient = gradient.contiguous()
        d_table = d_flat = None
        if ctx.needs_input_grad[0]:
            d_table = _table_gradient(shape, plan, characters, packed, winners, gradient)
            d_table = d_table.to(ctx.dtypes[0])
        if ctx.needs_input_grad[1]:
            d_flat = _flat_gradient(shape, plan, embedded, winners, gradient, ctx.dtypes[1])
        return d_table, d_flat, None, None, None


def _prepare(
    shape: Shape, plan: Plan, characters: Tensor, table: Tensor, flat: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the sorted words embedded, (U * C + taps, E), and all filters as a matrix (F, K)."""
    config = shape.config
    num_words, num_slots = characters.shape
    num_rows = num_words * num_slots + shape.taps
    embedded = torch.empty((num_rows, shape.embedding), dtype=shape.dtype, device=table.device)
    _embed[(triton.cdiv(num_rows, 256),)](
        characters, plan.order, table, embedded, num_words, num_slots, num_rows,
        config.num_characters, config.embedding_dim, E=shape.embedding, BLOCK=256,
    )  # fmt: skip
    packed = torch.empty((config.num_filters, shape.window), dtype=shape.dtype, device=table.device)
    block = shape.filters_summed
    _pack[(triton.cdiv(config.num_filters, block),)](
        flat, plan.widths, plan.offsets, packed, config.num_filters, config.embedding_dim,
        E=shape.embedding, K=shape.window, FILTERS=block,
    )  # fmt: skip
    return embedded, packed


def _pool_words(
    shape: Shape, plan: Plan, embedded: Tensor, packed: Tensor, flat: Tensor, winners: Tensor | None
) -> Tensor:
    """Return (U, F) in the original order; fill the winners, sorted words by filters, if any."""
    config, tiles = shape.config, shape.tiles
    assert tiles is not None
    num_words, num_filters = len(plan.order), config.num_filters
    pooled = torch.empty((num_words, num_filters), dtype=shape.dtype, device=embedded.device)
    words, block, warps, stages = tiles.pool
    _pool[(triton.cdiv(num_filters, block), triton.cdiv(num_words, words))](
        embedded, packed, flat[shape.num_weights :], plan.widths, plan.order, plan.slots,
        pooled, pooled if winners is None else winners,
        num_words, config.max_characters, num_filters, shape.widest,
        E=shape.embedding, K=shape.window, SHIFTS=shape.shifts, WORDS=words, FILTERS=block,
        PARTS=tiles.words // words, RELU=config.activation == "relu", SAVE=winners is not None,
        PRECISION=shape.precision,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return pooled


def _flat_gradient(
    shape: Shape, plan: Plan, embedded: Tensor, winners: Tensor, gradient: Tensor,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Return the gradient of all weights and biases, in their order."""
    config, block = shape.config, shape.filters_summed
    num_words, num_filters = winners.shape
    num_chunks = min(WORD_CHUNKS, triton.cdiv(num_words, 16))
    sums = gradient.new_empty((num_chunks, num_filters, shape.window), dtype=torch.float32)
    bias_sums = gradient.new_empty((num_chunks, num_filters), dtype=torch.float32)
    grid = triton.cdiv(num_filters, block)
    _sum_windows[(grid, num_chunks)](
        embedded, winners, gradient, plan.order, sums, bias_sums,
        num_words, config.max_characters, num_filters, triton.cdiv(num_words, num_chunks),
        E=shape.embedding, K=shape.window, FILTERS=block, UNROLL=UNROLL, num_warps=4,
    )  # fmt: skip
    flat = gradient.new_empty(shape.num_weights + num_filters, dtype=dtype)
    _unpack[(grid,)](
        sums, bias_sums, plan.widths, plan.offsets, flat, flat[shape.num_weights :],
        num_chunks, num_filters, config.embedding_dim,
        E=shape.embedding, K=shape.window, FILTERS=block,
    )  # fmt: skip
    return flat


def _table_gradient(
    shape: Shape, plan: Plan, characters: Tensor, packed: Tensor, winners: Tensor, gradient: Tensor
) -> Tensor:
    """Return the gradient of the characters' embeddings, (characters, E) in float32."""
    config, tiles = shape.config, shape.tiles
    assert tiles is not None
    num_words, num_tasks = len(winners), len(plan.blocks)
    windows = gradient.new_empty((num_tasks, tiles.words, shape.window), dtype=shape.dtype)
    block, warps, stages = tiles.windows
    _window_gradients[(num_tasks,)](
        packed, winners, gradient, plan.order, plan.starts, plan.blocks, windows,
        num_words, config.num_filters,
        E=shape.embedding, K=shape.window, SHIFTS=shape.shifts, WORDS=tiles.words, FILTERS=block,
        PRECISION=shape.precision, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    num_chunks = min(TABLE_CHUNKS, num_tasks)
    sums = gradient.new_empty(
        (num_chunks, config.num_characters, shape.embedding), dtype=torch.float32
    )
    block, warps, stages = CHARACTERS
    _sum_characters[(num_chunks, triton.cdiv(config.num_characters, block))](
        windows, characters, plan.order, plan.starts, plan.blocks, sums,
        num_words, config.max_characters, num_tasks, config.num_characters,
        E=shape.embedding, K=shape.window, SHIFTS=shape.shifts,
        SLOTS=shape.widest + shape.shifts - 1, WORDS=tiles.words, CHARACTERS=block,
        PRECISION=shape.precision, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return sums.sum(0)[:, : config.embedding_dim]


@triton.jit(do_not_specialize=["num_words", "num_rows"])
def _embed(
    characters, order, table, embedded, num_words, num_slots, num_rows, num_characters, dim,
    E: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Embed words. Rows beyond the last word are zeros: windows at its end extend into them."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = rows // num_slots
    inside = words < num_words
    source = tl.load(order + words, mask=inside, other=0).to(tl.int64) * num_slots
    ids = tl.load(characters + source + rows % num_slots, mask=inside, other=0).to(tl.int32)
    inside = inside & (ids >= 0) & (ids < num_characters)
    e = tl.arange(0, E)[None, :]
    embedding = table + ids[:, None] * dim + e
    numbers = tl.load(embedding, mask=inside[:, None] & (e < dim), other=0.0)
    target = embedded + rows.to(tl.int64)[:, None] * E + e
    tl.store(target, numbers.to(embedded.dtype.element_ty), mask=(rows < num_rows)[:, None])


@triton.jit
def _pack(
    flat, widths, offsets, packed, num_filters, dim,
    E: tl.constexpr, K: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """Copy (filters, E, width) to (filters, taps, E), filled up with zeros."""
    filters = (tl.program_id(0) * FILTERS + tl.arange(0, FILTERS))[:, None]
    inside = filters < num_filters
    width = tl.load(widths + filters, mask=inside, other=0)
    offset = tl.load(offsets + filters, mask=inside, other=0)
    k = tl.arange(0, K)[None, :]
    used = (k // E < width) & (k % E < dim)
    numbers = tl.load(flat + offset + (k % E) * width + k // E, mask=used, other=0.0)
    tl.store(packed + filters * K + k, numbers.to(packed.dtype.element_ty), mask=inside)


@triton.jit
def _shifted(packed, filters, k, num_filters, SHIFT: tl.constexpr, K: tl.constexpr):
    """Return filters moved along the window by SHIFT numbers."""
    inside = (filters < num_filters) & (k >= SHIFT)
    return tl.load(packed + filters * K + k - SHIFT, mask=inside, other=0.0)


@triton.jit
def _better(best, winner, sums, position, positions, MASKED: tl.constexpr):
    """Return the larger sums and their positions; the first of equal ones wins."""
    if MASKED:
        sums = tl.where(position < positions[None, :], sums, float("-inf"))
    winner = tl.where(sums > best, position, winner)
    return tl.maximum(best, sums, propagate_nan=tl.PropagateNan.ALL), winner


@triton.jit
def _convolve(
    best, winner, window, filter0, filter1, position, positions,
    SHIFT: tl.constexpr, SHIFTS: tl.constexpr, PRECISION: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return the best sums and their positions after the positions of one more window."""
    seen = tl.load(window + position * SHIFT)
    sums = tl.dot(seen, filter0, input_precision=PRECISION)
    best, winner = _better(best, winner, sums, position, positions, MASKED)
    if SHIFTS == 2:
        sums = tl.dot(seen, filter1, input_precision=PRECISION)
        best, winner = _better(best, winner, sums, position + 1, positions, MASKED)
    return best, winner


@triton.jit(do_not_specialize=["num_words"])
def _pool(
    embedded, packed, bias, widths, order, block_slots, pooled, winners,
    num_words, num_slots, num_filters, widest,
    E: tl.constexpr, K: tl.constexpr, SHIFTS: tl.constexpr, WORDS: tl.constexpr,
    FILTERS: tl.constexpr, PARTS: tl.constexpr, RELU: tl.constexpr, SAVE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    filters = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    inside = filters < num_filters
    k = tl.arange(0, K)
    slots = tl.load(block_slots + tl.program_id(1) // PARTS)
    positions = slots - tl.load(widths + filters, mask=inside, other=widest) + 1
    filter0 = _shifted(packed, filters[None, :], k[:, None], num_filters, 0, K)
    filter1 = filter0
    if SHIFTS == 2:
        filter1 = _shifted(packed, filters[None, :], k[:, None], num_filters, E, K)
    window = embedded + tl.minimum(rows, num_words - 1).to(tl.int64)[:, None] * (num_slots * E)
    window += k[None, :]
    best = tl.full((WORDS, FILTERS), float("-inf"), tl.float32)
    winner = tl.zeros((WORDS, FILTERS), tl.int32)
    # All filters of the program have the first positions; only narrow ones have the last.
    common = tl.min(positions) // SHIFTS * SHIFTS
    for p in range(0, common, SHIFTS):
        best, winner = _convolve(
            best, winner, window, filter0, filter1, p, positions, E, SHIFTS, PRECISION, False
        )
    for p in range(common, tl.max(positions), SHIFTS):
        best, winner = _convolve(
            best, winner, window, filter0, filter1, p, positions, E, SHIFTS, PRECISION, True
        )
    best += tl.load(bias + filters, mask=inside, other=0.0).to(tl.float32)[None, :]
    mask = (rows < num_words)[:, None] & inside[None, :]
    if SAVE:
        if RELU:
            winner = tl.where(best > 0.0, winner, _NO_WINNER)
        winner_at = winners + rows.to(tl.int64)[:, None] * num_filters + filters[None, :]
        tl.store(winner_at, winner.to(tl.uint8), mask=mask)
    if RELU:
        best = tl.maximum(best, 0.0, propagate_nan=tl.PropagateNan.ALL)
    else:
        best = 2.0 * tl.sigmoid(2.0 * best) - 1.0
    target = tl.load(order + rows, mask=rows < num_words, other=0).to(tl.int64)
    pooled_at = pooled + target[:, None] * num_filters + filters[None, :]
    tl.store(pooled_at, best.to(pooled.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["num_words", "chunk"])
def _sum_windows(
    embedded, winners, gradient, order, sums, bias_sums,
    num_words, num_slots, num_filters, chunk,
    E: tl.constexpr, K: tl.constexpr, FILTERS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Sum the winning windows of a chunk of words times the gradient, for each filter."""
    filters = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    inside = filters < num_filters
    k = tl.arange(0, K)[None, :]
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, num_words)
    total = tl.zeros((FILTERS, K), tl.float32)
    bias_total = tl.zeros((FILTERS,), tl.float32)
    for start in range(first, last, UNROLL):
        for i in tl.static_range(UNROLL):
            row = tl.minimum(start + i, num_words - 1).to(tl.int64)
            used = inside & (start + i < last)
            winner = tl.load(winners + row * num_filters + filters, mask=used, other=_NO_WINNER)
            won = winner != _NO_WINNER
            source = tl.load(order + row).to(tl.int64)
            g = tl.load(gradient + source * num_filters + filters, mask=won, other=0.0)
            g = g.to(tl.float32)
            position = tl.where(won, winner.to(tl.int32), 0)
            seen = tl.load(embedded + row * (num_slots * E) + (position * E)[:, None] + k)
            total += g[:, None] * seen.to(tl.float32)
            bias_total += g
    at = tl.program_id(1).to(tl.int64) * num_filters + filters
    tl.store(sums + at[:, None] * K + k, total, mask=inside[:, None])
    tl.store(bias_sums + at, bias_total, mask=inside)


@triton.jit(do_not_specialize=["num_chunks"])
def _unpack(
    sums, bias_sums, widths, offsets, flat, bias, num_chunks, num_filters, dim,
    E: tl.constexpr, K: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """Add up the chunks and store them as (filters, E, width)."""
    filters = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    inside = filters < num_filters
    k = tl.arange(0, K)[None, :]
    total = tl.zeros((FILTERS, K), tl.float32)
    bias_total = tl.zeros((FILTERS,), tl.float32)
    for chunk in range(num_chunks):
        at = (chunk * num_filters + filters).to(tl.int64)
        total += tl.load(sums + at[:, None] * K + k, mask=inside[:, None], other=0.0)
        bias_total += tl.load(bias_sums + at, mask=inside, other=0.0)
    width = tl.load(widths + filters, mask=inside, other=0)[:, None]
    offset = tl.load(offsets + filters, mask=inside, other=0)[:, None]
    used = (k // E < width) & (k % E < dim)
    flat_at = flat + offset + (k % E) * width + k // E
    tl.store(flat_at, total.to(flat.dtype.element_ty), mask=used)
    tl.store(bias + filters, bias_total.to(flat.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_words"])
def _window_gradients(
    packed, winners, gradient, order, starts, blocks, windows, num_words, num_filters,
    E: tl.constexpr, K: tl.constexpr, SHIFTS: tl.constexpr, WORDS: tl.constexpr,
    FILTERS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of a task's window, (WORDS, K), from all filters that won there."""
    task = tl.program_id(0)
    block = tl.load(blocks + task)
    position = (task - tl.load(starts + block)) * SHIFTS
    rows = tl.minimum(block * WORDS + tl.arange(0, WORDS), num_words - 1)
    source = tl.load(order + rows).to(tl.int64)[:, None] * num_filters
    row = rows.to(tl.int64)[:, None] * num_filters
    k = tl.arange(0, K)
    total = tl.zeros((WORDS, K), tl.float32)
    for start in range(0, num_filters, FILTERS):
        filters = start + tl.arange(0, FILTERS)
        inside = (filters < num_filters)[None, :]
        winner = tl.load(winners + row + filters[None, :], mask=inside, other=_NO_WINNER)
        g = tl.load(gradient + source + filters[None, :], mask=inside, other=0.0)
        g = g.to(packed.dtype.element_ty)
        weight = _shifted(packed, filters[:, None], k[None, :], num_filters, 0, K)
        chosen = tl.where(winner == position, g, 0.0)
        total = tl.dot(chosen, weight, total, input_precision=PRECISION)
        if SHIFTS == 2:
            weight = _shifted(packed, filters[:, None], k[None, :], num_filters, E, K)
            chosen = tl.where(winner == position + 1, g, 0.0)
            total = tl.dot(chosen, weight, total, input_precision=PRECISION)
    at = task.to(tl.int64) * WORDS + tl.arange(0, WORDS)
    tl.store(windows + at[:, None] * K + k[None, :], total.to(windows.dtype.element_ty))


@triton.jit(do_not_specialize=["num_words", "num_tasks"])
def _sum_characters(
    windows, characters, order, starts, blocks, sums,
    num_words, num_slots, num_tasks, num_characters,
    E: tl.constexpr, K: tl.constexpr, SHIFTS: tl.constexpr, SLOTS: tl.constexpr,
    WORDS: tl.constexpr, CHARACTERS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum the windows of every n-th task by character: products with one-hot matrices."""
    ids = tl.program_id(1) * CHARACTERS + tl.arange(0, CHARACTERS)
    e = tl.arange(0, E)[None, :]
    total = tl.zeros((CHARACTERS, E), tl.float32)
    for task in range(tl.program_id(0), num_tasks, tl.num_programs(0)):
        block = tl.load(blocks + task)
        position = (task - tl.load(starts + block)) * SHIFTS
        rows = block * WORDS + tl.arange(0, WORDS)
        inside = rows < num_words
        source = tl.load(order + rows, mask=inside, other=0).to(tl.int64) * num_slots
        at = (tl.cast(task, tl.int64) * WORDS + tl.arange(0, WORDS))[:, None] * K
        for slot in tl.static_range(SLOTS):
            known = inside & (position + slot < num_slots)
            seen = tl.load(characters + source + position + slot, mask=known, other=-1)
            numbers = tl.load(windows + at + slot * E + e)
            one_hot = (ids[:, None] == seen.to(tl.int32)[None, :]).to(numbers.dtype)
            total = tl.dot(one_hot, numbers, total, input_precision=PRECISION)
    entries = (tl.program_id(0) * num_characters + ids).to(tl.int64)[:, None] * E + e
    tl.store(sums + entries, total, mask=(ids < num_characters)[:, None])
