"""The conditional random field of `plain.py` as Triton kernels for a GPU.

Plain torch launches several operations per word, and a GPU finishes each long before the host has
launched the next. Here one program per sentence runs through all its words.

For each word a program computes, for every tag, the logarithm of the sum over all sequences that
lead to this tag, without the word's own score (`before`). It goes through memory, where every
thread of the program can read it for the next word. The backward pass needs it too: given the
gradient of a word's sums, the share of each tag before it is

    exp(before + score + transition - before of the next)

which is at most 1, whatever is not allowed. Pairs of tags are processed in blocks of (FROM, TO): TO
are all tags, and FROM too where they are few, whose transitions then stay in registers.

Nothing is summed by atomics, so equal inputs give equal bits. Only imported where Triton and a GPU
are present.

Shapes: B sentences, T words, C tags. All in float32; masks are True for words, and False for the
padding after them, whose scores and tags are never read.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.sizes import num_blocks, power_of_2

_ELEMENTS = 8192  # of a block of pairs
_ELEMENTS_PER_WARP = 1024  # 32 registers of each thread
_WORDS = tl.constexpr(128)  # processed together where their order does not matter
_INF = tl.constexpr(float("inf"))


def losses(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """Return the losses; see `dispatch.losses`. A tag out of range makes its sentence's NaN."""
    losses: Tensor = _Losses.apply(scores, tags, mask, starts, ends, pairs)
    return losses


def best_paths(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best paths; see `dispatch.best_paths`.

    Bit by bit those of plain torch, except that a score that is not less than infinity is NaN.
    """
    scores = scores.contiguous()
    num_sentences, num_words, num_tags = scores.shape
    before = torch.empty_like(scores)
    origins = torch.empty_like(scores, dtype=torch.int16)
    best = scores.new_empty(num_sentences)
    paths = scores.new_empty((num_sentences, num_words), dtype=torch.long)
    _find_best[(num_sentences,)](
        scores, mask.contiguous(), starts.contiguous(), ends.contiguous(), pairs.contiguous(),
        before, origins, best, paths, num_words, **_blocks(num_tags),
    )  # fmt: skip
    return best, paths


def _blocks(num_tags: int) -> dict[str, int]:
    """Return how pairs of tags are cut into blocks."""
    to = max(16, power_of_2(num_tags))
    origin = min(to, _ELEMENTS // to)
    num_warps = max(1, origin * to // _ELEMENTS_PER_WARP)
    # With more stages than one, a word's sums would be read before they are written.
    return {"C": num_tags, "FROM": origin, "TO": to, "num_warps": num_warps, "num_stages": 1}


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        tags: Tensor,
        mask: Tensor,
        starts: Tensor,
        ends: Tensor,
        pairs: Tensor,
    ) -> Tensor:
        inputs = [t.contiguous() for t in (scores, tags, mask, starts, ends, pairs)]
        before, losses = torch.empty_like(inputs[0]), scores.new_empty(len(scores))
        num_sentences, num_words, num_tags = scores.shape
        _sum_up[(num_sentences,)](*inputs, before, losses, num_words, **_blocks(num_tags))
        ctx.save_for_backward(*inputs, before)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        scores, tags, mask, _, ends, pairs, before = ctx.saved_tensors
        num_sentences, num_words, num_tags = scores.shape
        blocks, gradient = _blocks(num_tags), gradient.contiguous()
        flows, d_scores = torch.empty_like(scores), torch.zeros_like(scores)
        _losses_backward[(num_sentences,)](
            scores, tags, mask, ends, pairs, before, gradient, flows, d_scores, num_words, **blocks
        )
        # For each sentence: pairs, starts, ends.
        parts = scores.new_empty(num_sentences, num_tags + 2, num_tags)
        _count[(num_sentences, num_blocks(num_tags, blocks["FROM"]))](
            scores, tags, mask, pairs, before, gradient, flows, d_scores, parts, num_words, **blocks
        )
        d_pairs, d_starts, d_ends = parts.sum(0).split([num_tags, 1, 1])
        return d_scores, None, None, d_starts[0], d_ends[0], d_pairs


@triton.jit
def _num_words(mask, most):
    """Return the length of a sentence. Its first word counts whatever the mask is."""
    length = 0
    for first in range(0, most, _WORDS):
        words = first + tl.arange(0, _WORDS)
        length += tl.sum(tl.load(mask + words, mask=words < most, other=0).to(tl.int32), 0)
    return tl.maximum(length, 1)


@triton.jit
def _sums(before, scores, word, tags, C: tl.constexpr):
    """Return the sums over all sequences up to a word that end in these tags."""
    inside = tags < C
    sums = tl.load(before + word * C + tags, mask=inside, other=-_INF)
    return sums + tl.load(scores + word * C + tags, mask=inside, other=0.0)


@triton.jit
def _steps(pairs, origins, tags, C: tl.constexpr):
    """Return the transitions from some tags to others."""
    inside = (origins < C)[:, None] & (tags < C)[None, :]
    return tl.load(pairs + origins[:, None] * C + tags[None, :], mask=inside, other=0.0)


@triton.jit
def _of_sentence(pointer, num_words, C: tl.constexpr):
    """Return where the program's sentence begins in (B, T, C)."""
    return pointer + tl.program_id(0).to(tl.int64) * num_words * C


@triton.jit
def _sentence(scores, before, mask, num_words, C: tl.constexpr):
    """Return the program's sentence: its scores, its sums and its length."""
    length = _num_words(_of_sentence(mask, num_words, 1), num_words)
    return _of_sentence(scores, num_words, C), _of_sentence(before, num_words, C), length


@triton.jit
def _gradients(flows, d_scores, tags, gradient, num_words, C: tl.constexpr):
    """Return the program's sentence for the backward pass, and the gradient of its loss."""
    flows, d_scores = _of_sentence(flows, num_words, C), _of_sentence(d_scores, num_words, C)
    factor = tl.load(gradient + tl.program_id(0))
    return flows, d_scores, _of_sentence(tags, num_words, 1), factor


@triton.jit
def _first_word(before, starts, pairs, C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr):
    """Store the sums of the first word. Return all tags, and the transitions of the first block."""
    to = tl.arange(0, TO)
    tl.store(before + to, tl.load(starts + to, mask=to < C), mask=to < C)
    return to, _steps(pairs, tl.arange(0, FROM), to, C)


@triton.jit
def _extended(before, scores, pairs, kept, word, first, to, C: tl.constexpr, FROM: tl.constexpr):
    """Return a block of origin tags, and their sums at the word before extended to the next tags.

    `kept` are the transitions of the first block, which is the only one where tags are few.
    """
    origins = first + tl.arange(0, FROM)
    steps = kept if C <= FROM else _steps(pairs, origins, to, C)
    return origins, _sums(before, scores, word - 1, origins, C)[:, None] + steps


@triton.jit
def _ended(before, scores, ends, length, to, C: tl.constexpr):
    """Return the sums over all whole sequences that end in these tags."""
    sums = _sums(before, scores, length - 1, to, C)
    return sums + tl.load(ends + to, mask=to < C, other=0.0)


@triton.jit
def _path_score(scores, tags, starts, ends, pairs, length, C: tl.constexpr):
    """Return the score of these tags; NaN if one is out of range."""
    total = tl.zeros([_WORDS], dtype=tl.float32)
    for first in range(0, length, _WORDS):
        words = first + tl.arange(0, _WORDS)
        real, later = words < length, (words < length) & (words > 0)
        gold = tl.load(tags + words, mask=real, other=0)
        tag = tl.minimum(tl.maximum(gold, 0), C - 1)
        previous = tl.load(tags + words - 1, mask=later, other=0)
        previous = tl.minimum(tl.maximum(previous, 0), C - 1)
        total += tl.load(starts + tag, mask=words == 0, other=0.0)
        total += tl.load(pairs + previous * C + tag, mask=later, other=0.0)
        total += tl.load(scores + words * C + tag, mask=real, other=0.0)
        total += tl.load(ends + tag, mask=words == length - 1, other=0.0)
        total += tl.where(gold == tag, 0.0, float("nan"))
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=["num_words"])
def _sum_up(
    scores, tags, mask, starts, ends, pairs, before, losses, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    scores, before, length = _sentence(scores, before, mask, num_words, C)
    to, kept = _first_word(before, starts, pairs, C, FROM, TO)
    tl.debug_barrier()
    for word in range(1, length):
        highest = tl.full([TO], -_INF, dtype=tl.float32)
        total = tl.zeros([TO], dtype=tl.float32)  # of exponentials, the highest being 1
        for first in range(0, C, FROM):
            _, longer = _extended(before, scores, pairs, kept, word, first, to, C, FROM)
            higher = tl.maximum(highest, tl.max(longer, 0))
            total *= tl.exp(highest - higher)
            total += tl.sum(tl.exp(longer - higher[None, :]), 0)
            highest = higher
        tl.store(before + word * C + to, highest + tl.log(total), mask=to < C)
        tl.debug_barrier()
    ended = _ended(before, scores, ends, length, to, C)
    highest = tl.max(ended, 0)
    log_partition = highest + tl.log(tl.sum(tl.exp(ended - highest), 0))
    tags = _of_sentence(tags, num_words, 1)
    score = _path_score(scores, tags, starts, ends, pairs, length, C)
    tl.store(losses + tl.program_id(0), log_partition - score)


@triton.jit(do_not_specialize=["num_words"])
def _losses_backward(
    scores, tags, mask, ends, pairs, before, gradient, flows, d_scores, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # A flow is the gradient of a word's sums: the probability of a tag times the loss's gradient.
    # The gradient of a score is the flow less that of the gold tag.
    scores, before, length = _sentence(scores, before, mask, num_words, C)
    flows, d_scores, tags, factor = _gradients(flows, d_scores, tags, gradient, num_words, C)
    to = tl.arange(0, TO)
    kept = _steps(pairs, tl.arange(0, FROM), to, C)
    last = length - 1
    ended = _ended(before, scores, ends, length, to, C)
    shares = tl.exp(ended - tl.max(ended, 0))
    flow = factor * (shares / tl.sum(shares, 0))
    tl.store(flows + last * C + to, flow, mask=to < C)
    flow -= tl.where(to == tl.load(tags + last), factor, 0.0)
    tl.store(d_scores + last * C + to, flow, mask=to < C)
    tl.debug_barrier()
    for back in range(1, length):
        word = length - back
        flow = tl.load(flows + word * C + to, mask=to < C, other=0.0)
        after = tl.load(before + word * C + to, mask=to < C, other=_INF)
        tag = tl.load(tags + word - 1)
        for first in range(0, C, FROM):
            origins, longer = _extended(before, scores, pairs, kept, word, first, to, C, FROM)
            flow_before = tl.sum(flow[None, :] * tl.exp(longer - after[None, :]), 1)
            offsets = (word - 1) * C + origins
            tl.store(flows + offsets, flow_before, mask=origins < C)
            flow_before -= tl.where(origins == tag, factor, 0.0)
            tl.store(d_scores + offsets, flow_before, mask=origins < C)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_words"])
def _count(
    scores, tags, mask, pairs, before, gradient, flows, d_scores, parts, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # The expected number of each transition by the model's probabilities, less the gold number.
    parts = _of_sentence(parts, C + 2, C)
    scores, before, length = _sentence(scores, before, mask, num_words, C)
    flows, d_scores, tags, factor = _gradients(flows, d_scores, tags, gradient, num_words, C)
    origins = tl.program_id(1) * FROM + tl.arange(0, FROM)
    to = tl.arange(0, TO)
    steps = _steps(pairs, origins, to, C)
    counted = tl.zeros([FROM, TO], dtype=tl.float32)
    for word in range(1, length):
        flow = tl.load(flows + word * C + to, mask=to < C, other=0.0)
        after = tl.load(before + word * C + to, mask=to < C, other=_INF)
        longer = _sums(before, scores, word - 1, origins, C)[:, None] + steps
        counted += flow[None, :] * tl.exp(longer - after[None, :])
        is_origin = origins == tl.load(tags + word - 1)
        is_tag = to == tl.load(tags + word)
        counted -= tl.where(is_origin[:, None] & is_tag[None, :], factor, 0.0)
    inside = (origins < C)[:, None] & (to < C)[None, :]
    tl.store(parts + origins[:, None] * C + to[None, :], counted, mask=inside)
    if tl.program_id(1) == 0:  # starts and ends have the gradients of the first and last scores
        flow = tl.load(d_scores + to, mask=to < C)
        tl.store(parts + C * C + to, flow, mask=to < C)
        flow = tl.load(d_scores + (length - 1) * C + to, mask=to < C)
        tl.store(parts + (C + 1) * C + to, flow, mask=to < C)


@triton.jit
def _highest(scores):
    """Return the highest scores along the first axis, and the first indices that have them."""
    # The hardware's maximum would skip NaN.
    comparable = tl.where(scores == scores, scores, _INF)
    return tl.max(comparable, 0, return_indices=True, return_indices_tie_break_left=True)


@triton.jit(do_not_specialize=["num_words"])
def _find_best(
    scores, mask, starts, ends, pairs, before, origins, best, paths, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # `before` is of the best sequence, not a sum over all.
    origins, paths = _of_sentence(origins, num_words, C), _of_sentence(paths, num_words, 1)
    scores, before, length = _sentence(scores, before, mask, num_words, C)
    to, kept = _first_word(before, starts, pairs, C, FROM, TO)
    tl.debug_barrier()
    for word in range(1, length):
        highest = tl.full([TO], -_INF, dtype=tl.float32)
        origin = tl.zeros([TO], dtype=tl.int32)
        for first in range(0, C, FROM):
            _, longer = _extended(before, scores, pairs, kept, word, first, to, C, FROM)
            high, index = _highest(longer)
            origin = tl.where(high > highest, first + index, origin)
            highest = tl.maximum(highest, high)
        tl.store(before + word * C + to, highest, mask=to < C)
        tl.store(origins + word * C + to, origin, mask=to < C)
        tl.debug_barrier()
    highest, tag = _highest(_ended(before, scores, ends, length, to, C))
    tl.store(best + tl.program_id(0), tl.where(highest < _INF, highest, float("nan")))
    for first in range(length - 1, num_words, _WORDS):  # the last word and the padding
        words = first + tl.arange(0, _WORDS)
        tl.store(paths + words, tag, mask=words < num_words)
    for back in range(1, length):
        tag = tl.load(origins + (length - back) * C + tag).to(tl.int32)
        tl.store(paths + length - back - 1, tag)
