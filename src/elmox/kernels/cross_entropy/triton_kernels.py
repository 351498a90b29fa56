"""The softmax's loss without storing a score: Triton kernels for a GPU.

A position's scores s_k against K rivals matter only as probabilities. With the target's score s_t
as the reference, exp(s_k - s_t) needs no search for the largest score: the product's tiles are
turned into exponentials while they are in registers, and only those are stored, in 16 bits. (A
score itself would be too coarse in 16 bits; its exponential is precise enough for an error.) They
are errors except for a factor per position, one over (1 + their sum), which is applied where it is
cheap:

    d hidden = (exponentials @ rivals) * factor,  d rivals = exponentials.T @ (hidden * factor)

So N * K numbers of 16 bits are written once and read by each of these products. (Recomputing them
would cost one more product each time, which at P = 512 takes longer than reading.)

Where a rival is so much likelier than the target that exponentials could overflow, the position is
computed again with its largest score as the reference. That is slow, and rare in trained models.

Nothing is summed by atomics, so equal inputs give equal bits. Only imported where Triton and a GPU
are present. `triton_loss.py` launches these kernels.

Shapes: D directions, N positions in each, n of them in a chunk, P projection, U rows of the
softmax, S candidates, K rivals, W = `padded_width` of P.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmox.kernels.cross_entropy.plain import COLUMNS_16_BIT
from elmox.kernels.sizes import num_blocks, power_of_2

# Sums of exponentials beyond this are computed again. One over it times a 16-bit vector is still a
# normal number.
_FAR = tl.constexpr(2.0**60)
_LOG2_E = tl.constexpr(1.4426950408889634)
_MINUS_INF = tl.constexpr(float("-inf"))


class Tiles(NamedTuple):
    """Tile sizes of the large product."""

    positions: int
    rivals: int
    depth: int  # summands of P per iteration
    num_warps: int
    num_stages: int


# Two programs share a multiprocessor and its registers: one multiplies while the other
# exponentiates.
TILES = Tiles(128, 128, 64, 8, 3)
_REGISTERS = 2**16


class Words(NamedTuple):
    """The targets, and the rows of the softmax. Contiguous, as all tensors here."""

    weight: Tensor  # (U, P) any precision; rounded to that of `hidden` for products
    bias: Tensor  # (U,)
    targets: Tensor  # (D, N) indices into the U rows
    target_log_expected: Tensor | None  # (D, N) float32; None for the full softmax
    rival_indices: Tensor | None  # (D, U) a row's index among the rivals, or -1; None: the row's


class Rivals(NamedTuple):
    """The words that targets are compared with."""

    vectors: Tensor  # (D, K, P) in the precision of `hidden`
    offsets: Tensor  # (D, K) float32, added to the products


class Softmax(NamedTuple):
    """The softmax of every position. An error is a score's gradient: probability less truth."""

    target_scores: Tensor  # (D, N) float32, as all of these
    losses: Tensor  # (D, N) negative log-likelihoods
    target_errors: Tensor  # (D, N)
    scales: Tensor  # (D, N) the missing factors of the rivals' errors


def padded_width(width: int) -> int:
    """Return P and a column for the bias, rounded up to a width that products are fast with."""
    return num_blocks(width + 1, COLUMNS_16_BIT) * COLUMNS_16_BIT


def prepare_candidates(
    weight: Tensor,
    bias: Tensor,
    candidates: Tensor,
    log_expected: Tensor,
    num_rivals: int,
    precision: torch.dtype,
) -> tuple[Rivals, Tensor]:
    """Return the candidates as rivals, and their `Words.rival_indices`.

    Args:
        weight: (U, P).
        bias: (U,).
        candidates: (D, S) indices into the U rows, distinct in each direction.
        log_expected: (D, S) float32.
        num_rivals: K, at least S; those beyond S have probability 0.
        precision: data type of the rivals.
    """
    num_directions, num_candidates = candidates.shape
    num_rows, width = weight.shape
    vectors = weight.new_empty((num_directions, num_rivals, width), dtype=precision)
    offsets = torch.empty(num_directions, num_rivals, device=weight.device)
    rival_indices = weight.new_full((num_directions, num_rows), -1, dtype=torch.int32)
    rows, columns = _row_blocks(width)
    _prepare_candidates[(num_blocks(num_rivals, rows), num_directions)](
        weight, bias, candidates.contiguous(), log_expected.contiguous(), vectors, offsets,
        rival_indices, num_candidates, num_rivals, num_rows, P=width, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    return Rivals(vectors, offsets), rival_indices


def score_targets(hidden: Tensor, words: Words) -> Softmax:
    """Return a softmax with the targets' scores of all positions (D, N, P), the rest empty."""
    shape, width = hidden.shape[:2], hidden.shape[2]
    softmax = Softmax(*torch.empty((4, *shape), device=hidden.device).unbind())
    rows, columns = _row_blocks(width)
    expected = words.target_log_expected
    _score_targets[(num_blocks(shape.numel(), rows),)](
        hidden, words.weight, words.bias, words.targets,
        words.bias if expected is None else expected,  # not read in the first case
        softmax.target_scores, shape.numel(),
        P=width, SAMPLED=expected is not None, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    return softmax


def exponentiate(
    hidden: Tensor,
    words: Words,
    rivals: Rivals,
    softmax: Softmax,
    part: slice,
    needs_errors: bool,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """Fill the softmax of the positions `part` of each direction; return factors of gradients.

    Args:
        hidden: (D, N, P).
        words: the targets.
        rivals: the rivals.
        softmax: with the targets' scores; the rest is filled for these positions.
        part: n positions.
        needs_errors: False if only the losses are used.
        tiles: tile sizes instead of the default ones.

    Returns:
        (D, n, K) errors of the rivals without the scales, and (D, n, W) hidden vectors times the
        scales, followed by a column of the scales. Both in the precision of `hidden`.
    """
    num_directions, num_positions, width = hidden.shape
    num, num_rivals = part.stop - part.start, rivals.vectors.shape[1]
    tiles = tiles or TILES
    num_wide = num_blocks(num_rivals, tiles.rivals)
    sums = torch.empty(num_directions, num, num_wide, device=hidden.device)
    scaled = hidden.new_empty(num_directions, num, padded_width(width))
    # Triton's 32-bit products are slow: torch computes the scores, the kernel replaces them.
    scores_given = hidden.dtype == torch.float32
    if scores_given:
        errors = torch.bmm(hidden[:, part], rivals.vectors.mT)
    else:
        errors = hidden.new_empty((num_directions, num, num_rivals) if needs_errors else 0)
    sampled = words.rival_indices is not None
    rival_indices = words.targets if words.rival_indices is None else words.rival_indices
    tensors = (hidden, *rivals, words.targets, rival_indices, softmax.target_scores, errors, sums)
    sizes = (part.start, num, num_positions, num_rivals, len(words.weight))
    _exponentiate[(num_blocks(num, tiles.positions) * num_wide, num_directions)](
        *tensors, *sizes,
        P=width, SAMPLED=sampled, SCORES_GIVEN=scores_given, STORE=needs_errors,
        POSITIONS=tiles.positions, RIVALS=tiles.rivals, DEPTH=tiles.depth, GROUP=16,
        num_warps=tiles.num_warps, num_stages=tiles.num_stages,
        maxnreg=min(255, _REGISTERS // 2 // (32 * tiles.num_warps)),
    )  # fmt: skip
    _finish[(num, num_directions)](
        *tensors, softmax.losses, softmax.target_errors, softmax.scales, scaled, *sizes, num_wide,
        P=width, W=scaled.shape[2], SAMPLED=sampled, STORE=needs_errors,
        COLUMNS=power_of_2(width), num_warps=2,
    )  # fmt: skip
    return errors, scaled


def hidden_gradient(
    product: Tensor, softmax: Softmax, words: Words, hidden: Tensor, factor: Tensor
) -> Tensor:
    """Return the gradient of the hidden vectors.

    Args:
        product: (D, N, P) float32, errors @ rivals, without the scales.
        softmax: the softmax.
        words: the targets.
        hidden: (D, N, P).
        factor: () float32 factor of the result.
    """
    out = torch.empty_like(hidden)
    width, num = hidden.shape[2], words.targets.numel()
    rows, columns = _row_blocks(width)
    _combine[(num_blocks(num, rows),)](
        product, softmax.scales, softmax.target_errors, words.weight, words.targets, factor, out,
        num, P=width, ROWS=rows, COLUMNS=columns,
    )  # fmt: skip
    return out


def row_gradients(
    shares: Tensor, softmax: Softmax, words: Words, hidden: Tensor, factor: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the weight's rows and of the bias, summed in a fixed order.

    Args:
        shares: (D, K, W) float32, errors.T @ scaled hidden vectors: the rivals' part.
        softmax: the softmax, whose target errors are the other part.
        words: the targets.
        hidden: (D, N, P).
        factor: () float32 factor of the results.
    """
    num_rows, width = words.weight.shape
    sampled = words.rival_indices is not None
    ordered, order = words.targets.int().view(-1).sort(stable=True)
    numbers = torch.arange(num_rows + 1, dtype=torch.int32, device=hidden.device)
    starts = torch.searchsorted(ordered, numbers, out_int32=True)
    weight, bias = torch.empty_like(words.weight), torch.empty_like(words.bias)
    columns = min(512, power_of_2(width))
    num_warps = 4 if columns <= 128 else 8
    _sum_rows[(num_rows, num_blocks(width, columns))](
        shares, words.rival_indices if sampled else words.targets, starts, order,
        hidden, softmax.target_errors, factor, weight, bias, shares.shape[1], num_rows,
        P=width, W=shares.shape[2], DIRECTIONS=len(shares), SAMPLED=sampled,
        MANY=min(64, 1024 * num_warps // columns), FEW=4, COLUMNS=columns, num_warps=num_warps,
    )  # fmt: skip
    return weight, bias


def _row_blocks(width: int) -> tuple[int, int]:
    """Return rows and columns of a block of whole rows, about 4096 elements."""
    columns = power_of_2(width)
    return max(1, 4096 // columns), columns


@triton.jit(do_not_specialize=["num_rows"])
def _prepare_candidates(
    weight, bias, candidates, log_expected, rivals, offsets, rival_indices,
    num_candidates, num_rivals, num_rows,
    P: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1).to(tl.int64)
    lines = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    real = lines < num_candidates
    candidate = direction * num_candidates + lines
    row = tl.load(candidates + candidate, mask=real, other=0).to(tl.int64)
    tl.store(rival_indices + direction * num_rows + row, lines, mask=real)
    offset = tl.load(bias + row, mask=real, other=0.0).to(tl.float32)
    offset -= tl.load(log_expected + candidate, mask=real, other=0.0)
    valid, line = lines < num_rivals, direction * num_rivals + lines
    tl.store(offsets + line, tl.where(real, offset, _MINUS_INF), mask=valid)
    inside = (columns < P)[None, :]
    from_rows = weight + row[:, None] * P + columns[None, :]
    w = tl.load(from_rows, mask=inside & real[:, None], other=0.0)
    to_rows = rivals + line[:, None] * P + columns[None, :]
    tl.store(to_rows, w.to(rivals.dtype.element_ty), mask=inside & valid[:, None])


@triton.jit
def _score_targets(
    hidden, weight, bias, targets, log_expected, target_scores, num_positions,
    P: tl.constexpr, SAMPLED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    lines = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    valid = lines < num_positions
    inside = valid[:, None] & (columns < P)[None, :]
    target = tl.load(targets + lines, mask=valid, other=0).to(tl.int64)
    entries = lines.to(tl.int64)[:, None] * P + columns[None, :]
    h = tl.load(hidden + entries, mask=inside, other=0.0)
    w = tl.load(weight + target[:, None] * P + columns[None, :], mask=inside, other=0.0)
    w = w.to(h.dtype).to(tl.float32)
    score = tl.sum(h.to(tl.float32) * w, 1)
    score += tl.load(bias + target, mask=valid, other=0.0).to(tl.float32)
    if SAMPLED:
        score -= tl.load(log_expected + lines, mask=valid, other=0.0)
    tl.store(target_scores + lines, score, mask=valid)


@triton.jit
def _rival_of(targets, rival_indices, position, direction, num_rows, valid, SAMPLED: tl.constexpr):
    """Return the targets' indices among the rivals of their direction."""
    target = tl.load(targets + position, mask=valid, other=0).to(tl.int64)
    if SAMPLED:
        target = tl.load(rival_indices + direction * num_rows + target, mask=valid, other=-1)
    return target.to(tl.int32)


@triton.jit(do_not_specialize=["start", "num", "num_positions", "num_rows"])
def _exponentiate(
    hidden, rivals, offsets, targets, rival_indices, target_scores, errors, sums,
    start, num, num_positions, num_rivals, num_rows,
    P: tl.constexpr, SAMPLED: tl.constexpr, SCORES_GIVEN: tl.constexpr, STORE: tl.constexpr,
    POSITIONS: tl.constexpr, RIVALS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # GROUP tiles of positions share the tiles of rivals, so that both come from the cache.
    num_tall, num_wide = tl.cdiv(num, POSITIONS), tl.cdiv(num_rivals, RIVALS)
    group = tl.program_id(0) // (GROUP * num_wide)
    group_size = min(num_tall - group * GROUP, GROUP)
    within = tl.program_id(0) % (GROUP * num_wide)
    tall, wide = group * GROUP + within % group_size, within // group_size

    direction = tl.program_id(1).to(tl.int64)
    hidden += (direction * num_positions + start) * P
    rivals += direction * num_rivals * P
    lines = tall * POSITIONS + tl.arange(0, POSITIONS)
    columns = wide * RIVALS + tl.arange(0, RIVALS)
    if SCORES_GIVEN:
        tile, stored = _tile(errors, direction * num, lines, columns, num, num_rivals)
        scores = tl.load(tile, mask=stored, other=0.0)
    else:
        # Beyond the ends the last line is read again; its results are not stored.
        safe_lines = tl.minimum(lines, num - 1).to(tl.int64)
        safe_columns = tl.minimum(columns, num_rivals - 1).to(tl.int64)
        scores = tl.zeros([POSITIONS, RIVALS], dtype=tl.float32)
        for first in range(0, P, DEPTH):
            depth = first + tl.arange(0, DEPTH)
            left = hidden + safe_lines[:, None] * P + depth[None, :]
            right = rivals + safe_columns[None, :] * P + depth[:, None]
            if P % DEPTH == 0:
                h, w = tl.load(left), tl.load(right)
            else:
                h = tl.load(left, mask=(depth < P)[None, :], other=0.0)
                w = tl.load(right, mask=(depth < P)[:, None], other=0.0)
            scores = tl.dot(h, w, scores)

    valid, inside = lines < num, columns < num_rivals
    positions = direction * num_positions + start + lines
    target_score = tl.load(target_scores + positions, mask=valid, other=0.0)
    hit = _rival_of(targets, rival_indices, positions, direction, num_rows, valid, SAMPLED)
    offset = tl.load(offsets + direction * num_rivals + columns, mask=inside, other=_MINUS_INF)
    shift = (offset * _LOG2_E)[None, :] - (target_score * _LOG2_E)[:, None]
    values = tl.exp2(scores * _LOG2_E + shift)
    values = tl.where(columns[None, :] == hit[:, None], 0.0, values)
    tl.store(sums + (direction * num + lines) * num_wide + wide, tl.sum(values, 1), mask=valid)
    if STORE:
        tile, stored = _tile(errors, direction * num, lines, columns, num, num_rivals)
        tl.store(tile, values.to(errors.dtype.element_ty), mask=stored)


@triton.jit
def _tile(errors, first, lines, columns, num, num_rivals):
    """Return a tile of a direction's errors, whose lines begin at `first`, and its valid part."""
    tile = errors + (first + lines)[:, None] * num_rivals + columns[None, :]
    return tile, (lines < num)[:, None] & (columns < num_rivals)[None, :]


@triton.jit(do_not_specialize=["start", "num", "num_positions", "num_rows"])
def _finish(
    hidden, rivals, offsets, targets, rival_indices, target_scores, errors, sums,
    losses, target_errors, scales, scaled,
    start, num, num_positions, num_rivals, num_rows, num_wide,
    P: tl.constexpr, W: tl.constexpr, SAMPLED: tl.constexpr, STORE: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    direction = tl.program_id(1).to(tl.int64)
    line = direction * num + tl.program_id(0)
    position = direction * num_positions + start + tl.program_id(0)
    parts = tl.zeros([64], dtype=tl.float32)
    first = 0  # and `while`: the interpreter has no `range` over numbers that are arguments
    while first < num_wide:
        blocks = first + tl.arange(0, 64)
        parts += tl.load(sums + line * num_wide + blocks, mask=blocks < num_wide, other=0.0)
        first += 64
    rest = tl.sum(parts, 0)
    target = tl.load(target_scores + position)
    top = target
    if (rest > _FAR) | (rest != rest):
        vector = hidden + position * P
        rivals_here = rivals + direction * num_rivals * P
        offsets_here = offsets + direction * num_rivals
        hit = _rival_of(targets, rival_indices, position, direction, num_rows, True, SAMPLED)
        top = _largest(vector, rivals_here, offsets_here, hit, target, num_rivals, P, COLUMNS)
        rest = _exponentiate_line(
            vector, rivals_here, offsets_here, hit, top, errors + line * num_rivals, num_rivals,
            P, COLUMNS, STORE,
        )  # fmt: skip
    total = rest + tl.exp(target - top)
    scale = 1.0 / total
    tl.store(losses + position, tl.log(total) - (target - top))
    tl.store(target_errors + position, -rest * scale)
    tl.store(scales + position, scale)
    if STORE:
        columns = tl.arange(0, COLUMNS)
        h = tl.load(hidden + position * P + columns, mask=columns < P).to(tl.float32)
        tl.store(scaled + line * W + columns, h * scale, mask=columns < P)
        few = tl.arange(0, 8)  # at least as many as there are after P
        after = tl.where(few == 0, scale, 0.0)
        tl.store(scaled + line * W + P + few, after, mask=P + few < W)


@triton.jit
def _line_scores(vector, rivals, offsets, hit, columns, num_rivals, P, COLUMNS: tl.constexpr):
    depth = tl.arange(0, COLUMNS)
    valid = columns < num_rivals
    h = tl.load(vector + depth, mask=depth < P, other=0.0).to(tl.float32)
    entries = columns.to(tl.int64)[:, None] * P + depth[None, :]
    inside = valid[:, None] & (depth < P)[None, :]
    w = tl.load(rivals + entries, mask=inside, other=0.0).to(tl.float32)
    scores = tl.sum(w * h[None, :], 1)
    scores += tl.load(offsets + columns, mask=valid, other=_MINUS_INF)
    return tl.where(columns == hit, _MINUS_INF, scores)


@triton.jit
def _largest(vector, rivals, offsets, hit, target, num_rivals, P, COLUMNS: tl.constexpr):
    tops = tl.full([16], _MINUS_INF, dtype=tl.float32)
    start = 0
    while start < num_rivals:
        columns = start + tl.arange(0, 16)
        scores = _line_scores(vector, rivals, offsets, hit, columns, num_rivals, P, COLUMNS)
        tops = tl.maximum(tops, scores)
        start += 16
    return tl.maximum(tl.max(tops, 0), target)


@triton.jit
def _exponentiate_line(
    vector, rivals, offsets, hit, top, errors, num_rivals,
    P, COLUMNS: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    parts = tl.zeros([16], dtype=tl.float32)
    start = 0
    while start < num_rivals:
        columns = start + tl.arange(0, 16)
        scores = _line_scores(vector, rivals, offsets, hit, columns, num_rivals, P, COLUMNS)
        values = tl.exp(scores - top)
        parts += values
        if STORE:
            tl.store(errors + columns, values, mask=columns < num_rivals)
        start += 16
    return tl.sum(parts, 0)


@triton.jit
def _combine(
    product, scales, target_errors, weight, targets, factor, out, num_positions,
    P: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    lines = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    valid = lines < num_positions
    inside = valid[:, None] & (columns < P)[None, :]
    common = tl.load(factor)
    scale = tl.load(scales + lines, mask=valid, other=0.0) * common
    error = tl.load(target_errors + lines, mask=valid, other=0.0) * common
    target = tl.load(targets + lines, mask=valid, other=0).to(tl.int64)
    entries = lines.to(tl.int64)[:, None] * P + columns[None, :]
    share = tl.load(product + entries, mask=inside, other=0.0)
    w = tl.load(weight + target[:, None] * P + columns[None, :], mask=inside, other=0.0)
    w = w.to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + entries, share * scale[:, None] + w * error[:, None], mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def _sum_rows(
    shares, rival_indices, starts, order, hidden, target_errors, factor, weight, bias,
    num_rivals, num_rows,
    P: tl.constexpr, W: tl.constexpr, DIRECTIONS: tl.constexpr, SAMPLED: tl.constexpr,
    MANY: tl.constexpr, FEW: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    # One program per row: its part as a rival of each direction, and as a target.
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < P
    start, stop = tl.load(starts + row), tl.load(starts + row + 1)
    weight_sum = tl.zeros([COLUMNS], dtype=tl.float32)
    bias_sum = tl.sum(tl.zeros([FEW], dtype=tl.float32), 0)
    for direction in tl.static_range(DIRECTIONS):
        rival = row
        if SAMPLED:
            rival = tl.load(rival_indices + direction * num_rows + row).to(tl.int64)
        share = shares + (direction * num_rivals + rival) * W
        weight_sum += tl.load(share + columns, mask=inside & (rival >= 0), other=0.0)
        bias_sum += tl.load(share + P, mask=rival >= 0, other=0.0)
    if stop - start >= MANY:
        many = tl.arange(0, MANY)
        weight_sums = tl.zeros([MANY, COLUMNS], dtype=tl.float32)
        bias_sums = tl.zeros([MANY], dtype=tl.float32)
        positions = tl.load(order + start + many)
        while stop - start >= MANY:
            vectors = hidden + positions[:, None] * P + columns[None, :]
            h = tl.load(vectors, mask=inside[None, :], other=0.0).to(tl.float32)
            errors = tl.load(target_errors + positions)
            start += MANY
            # Loaded here, so that the next vectors need not wait for it.
            positions = tl.load(order + start + many, mask=start + many < stop, other=0)
            weight_sums += h * errors[:, None]
            bias_sums += errors
        weight_sum += tl.sum(weight_sums, 0)
        bias_sum += tl.sum(bias_sums, 0)
    while start < stop:
        few = start + tl.arange(0, FEW)
        positions = tl.load(order + few, mask=few < stop, other=0)
        errors = tl.load(target_errors + positions, mask=few < stop, other=0.0)
        vectors = hidden + positions[:, None] * P + columns[None, :]
        h = tl.load(vectors, mask=(few < stop)[:, None] & inside[None, :], other=0.0)
        weight_sum += tl.sum(h.to(tl.float32) * errors[:, None], 0)
        bias_sum += tl.sum(errors, 0)
        start += FEW
    common = tl.load(factor)
    tl.store(weight + row * P + columns, weight_sum * common, mask=inside)
    tl.store(bias + row, bias_sum * common, mask=tl.program_id(1) == 0)
