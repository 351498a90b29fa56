"""The conditional random field of `elmox.tasks.nn.crf`: Triton kernels for a GPU.

There its algorithms go word by word, some operations each, which a GPU is through with long before
the host has launched the next. Here each sentence has a program that goes through all its words.

What a program knows of a word is, for every tag, the logarithm of the sum over all sequences before
it that lead to this tag, without the word's own score (`before`). It goes through memory, where a
next word finds all of it, whichever thread has written it. The way back needs it too: given the
gradient of a word's sums, each tag before has had a share in them of

    exp(before + score + transition - before of the next)

which is 1 at most, whatever is not allowed. Pairs of tags are looked at in blocks of (FROM, TO): TO
are all tags, and FROM too where they are few, whose transitions stay in registers.

Nothing is summed by atomics, so equal inputs give equal bits. Only imported where Triton and a GPU
are there.

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
_ELEMENTS_A_WARP = 1024  # 32 registers of each thread
_WORDS = tl.constexpr(128)  # at a time, where their order does not matter
_INF = tl.constexpr(float("inf"))


def losses(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """The negative log-likelihood of each sentence's tags: (B,).

    A tag that there is not makes it NaN.

    Args:
        scores: (B, T, C) of each tag for each word.
        tags: (B, T) the right ones.
        mask: (B, T).
        starts: (C,) scores of a sentence's first tag; finite, as the next ones.
        ends: (C,) of its last.
        pairs: (C, C) of the second tag after the first.
    """
    found: Tensor = _Losses.apply(scores, tags, mask, starts, ends, pairs)
    return found


def best_paths(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """The score (B,) of the best sequence and its tags (B, T), at padding the last one again.

    Bit by bit what plain torch finds, but that the score is NaN wherever a sentence's is not less
    than infinity. Of equally good tags it is the one with the lowest number.

    Args:
        scores: (B, T, C) of each tag for each word.
        mask: (B, T).
        starts: (C,) scores of a sentence's first tag.
        ends: (C,) of its last.
        pairs: (C, C) of the second tag after the first.
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
    """How pairs of tags are looked at."""
    to = max(16, power_of_2(num_tags))
    origin = min(to, _ELEMENTS // to)
    num_warps = max(1, origin * to // _ELEMENTS_A_WARP)
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
        given = [t.contiguous() for t in (scores, tags, mask, starts, ends, pairs)]
        before, found = torch.empty_like(given[0]), scores.new_empty(len(scores))
        num_sentences, num_words, num_tags = scores.shape
        _sum_up[(num_sentences,)](*given, before, found, num_words, **_blocks(num_tags))
        ctx.save_for_backward(*given, before)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        scores, tags, mask, _, ends, pairs, before = ctx.saved_tensors
        num_sentences, num_words, num_tags = scores.shape
        blocks, gradient = _blocks(num_tags), gradient.contiguous()
        flows, d_scores = torch.empty_like(scores), torch.zeros_like(scores)
        _go_back[(num_sentences,)](
            scores, tags, mask, ends, pairs, before, gradient, flows, d_scores, num_words, **blocks
        )
        # Of each sentence: pairs, starts, ends.
        parts = scores.new_empty(num_sentences, num_tags + 2, num_tags)
        _count[(num_sentences, num_blocks(num_tags, blocks["FROM"]))](
            scores, tags, mask, pairs, before, gradient, flows, d_scores, parts, num_words, **blocks
        )
        d_pairs, d_starts, d_ends = parts.sum(0).split([num_tags, 1, 1])
        return d_scores, None, None, d_starts[0], d_ends[0], d_pairs


@triton.jit
def _num_words(mask, most):
    """Of a sentence. Its first word is one whatever the mask says."""
    length = 0
    for first in range(0, most, _WORDS):
        words = first + tl.arange(0, _WORDS)
        length += tl.sum(tl.load(mask + words, mask=words < most, other=0).to(tl.int32), 0)
    return tl.maximum(length, 1)


@triton.jit
def _sums(before, scores, word, tags, C: tl.constexpr):
    """Over all sequences up to a word that end in these tags."""
    inside = tags < C
    sums = tl.load(before + word * C + tags, mask=inside, other=-_INF)
    return sums + tl.load(scores + word * C + tags, mask=inside, other=0.0)


@triton.jit
def _steps(pairs, origins, tags, C: tl.constexpr):
    """The transitions from some tags to others."""
    inside = (origins < C)[:, None] & (tags < C)[None, :]
    return tl.load(pairs + origins[:, None] * C + tags[None, :], mask=inside, other=0.0)


@triton.jit
def _right_score(scores, tags, starts, ends, pairs, length, C: tl.constexpr):
    """The score of these tags."""
    total = tl.zeros([_WORDS], dtype=tl.float32)
    for first in range(0, length, _WORDS):
        words = first + tl.arange(0, _WORDS)
        real, later = words < length, (words < length) & (words > 0)
        given = tl.load(tags + words, mask=real, other=0)
        tag = tl.minimum(tl.maximum(given, 0), C - 1)
        previous = tl.load(tags + words - 1, mask=later, other=0)
        previous = tl.minimum(tl.maximum(previous, 0), C - 1)
        total += tl.load(starts + tag, mask=words == 0, other=0.0)
        total += tl.load(pairs + previous * C + tag, mask=later, other=0.0)
        total += tl.load(scores + words * C + tag, mask=real, other=0.0)
        total += tl.load(ends + tag, mask=words == length - 1, other=0.0)
        total += tl.where(given == tag, 0.0, float("nan"))
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=["num_words"])
def _sum_up(
    scores, tags, mask, starts, ends, pairs, before, losses, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    sentence = tl.program_id(0).to(tl.int64)
    scores += sentence * num_words * C
    before += sentence * num_words * C
    length = _num_words(mask + sentence * num_words, num_words)
    to = tl.arange(0, TO)
    kept = _steps(pairs, tl.arange(0, FROM), to, C)
    tl.store(before + to, tl.load(starts + to, mask=to < C), mask=to < C)
    tl.debug_barrier()
    for word in range(1, length):
        highest = tl.full([TO], -_INF, dtype=tl.float32)
        total = tl.zeros([TO], dtype=tl.float32)  # of exponentials, the highest being 1
        for first in range(0, C, FROM):
            origins = first + tl.arange(0, FROM)
            steps = kept if C <= FROM else _steps(pairs, origins, to, C)
            longer = _sums(before, scores, word - 1, origins, C)[:, None] + steps
            higher = tl.maximum(highest, tl.max(longer, 0))
            total *= tl.exp(highest - higher)
            total += tl.sum(tl.exp(longer - higher[None, :]), 0)
            highest = higher
        tl.store(before + word * C + to, highest + tl.log(total), mask=to < C)
        tl.debug_barrier()
    ended = _sums(before, scores, length - 1, to, C) + tl.load(ends + to, mask=to < C, other=0.0)
    highest = tl.max(ended, 0)
    log_partition = highest + tl.log(tl.sum(tl.exp(ended - highest), 0))
    right = _right_score(scores, tags + sentence * num_words, starts, ends, pairs, length, C)
    tl.store(losses + sentence, log_partition - right)


@triton.jit(do_not_specialize=["num_words"])
def _go_back(
    scores, tags, mask, ends, pairs, before, gradient, flows, d_scores, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # A flow is the gradient of a word's sums: the probability of a tag, but for the loss's own
    # gradient. What a score gets of it is without the right tag.
    sentence = tl.program_id(0).to(tl.int64)
    scores += sentence * num_words * C
    before += sentence * num_words * C
    flows += sentence * num_words * C
    d_scores += sentence * num_words * C
    tags += sentence * num_words
    length = _num_words(mask + sentence * num_words, num_words)
    factor = tl.load(gradient + sentence)
    to = tl.arange(0, TO)
    kept = _steps(pairs, tl.arange(0, FROM), to, C)
    last = length - 1
    ended = _sums(before, scores, last, to, C) + tl.load(ends + to, mask=to < C, other=0.0)
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
            origins = first + tl.arange(0, FROM)
            steps = kept if C <= FROM else _steps(pairs, origins, to, C)
            longer = _sums(before, scores, word - 1, origins, C)[:, None] + steps
            own = tl.sum(flow[None, :] * tl.exp(longer - after[None, :]), 1)
            place = (word - 1) * C + origins
            tl.store(flows + place, own, mask=origins < C)
            own -= tl.where(origins == tag, factor, 0.0)
            tl.store(d_scores + place, own, mask=origins < C)
        tl.debug_barrier()


@triton.jit(do_not_specialize=["num_words"])
def _count(
    scores, tags, mask, pairs, before, gradient, flows, d_scores, parts, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # How often tags follow each other by the model's probabilities, less how often they do.
    sentence = tl.program_id(0).to(tl.int64)
    scores += sentence * num_words * C
    before += sentence * num_words * C
    flows += sentence * num_words * C
    d_scores += sentence * num_words * C
    tags += sentence * num_words
    parts += sentence * (C + 2) * C
    length = _num_words(mask + sentence * num_words, num_words)
    factor = tl.load(gradient + sentence)
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
    if tl.program_id(1) == 0:  # first and last words' scores are added to those of starts and ends
        flow = tl.load(d_scores + to, mask=to < C)
        tl.store(parts + C * C + to, flow, mask=to < C)
        flow = tl.load(d_scores + (length - 1) * C + to, mask=to < C)
        tl.store(parts + (C + 1) * C + to, flow, mask=to < C)


@triton.jit
def _highest(scores):
    """The highest scores along the first axis, and the first places that have them."""
    # The hardware's maximum would pass over NaN.
    known = tl.where(scores == scores, scores, _INF)
    return tl.max(known, 0, return_indices=True, return_indices_tie_break_left=True)


@triton.jit(do_not_specialize=["num_words"])
def _find_best(
    scores, mask, starts, ends, pairs, before, origins, best, paths, num_words,
    C: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    # `before` is of the best sequence, not a sum over all.
    sentence = tl.program_id(0).to(tl.int64)
    scores += sentence * num_words * C
    before += sentence * num_words * C
    origins += sentence * num_words * C
    paths += sentence * num_words
    length = _num_words(mask + sentence * num_words, num_words)
    to = tl.arange(0, TO)
    kept = _steps(pairs, tl.arange(0, FROM), to, C)
    tl.store(before + to, tl.load(starts + to, mask=to < C), mask=to < C)
    tl.debug_barrier()
    for word in range(1, length):
        highest = tl.full([TO], -_INF, dtype=tl.float32)
        origin = tl.zeros([TO], dtype=tl.int32)
        for first in range(0, C, FROM):
            some = first + tl.arange(0, FROM)
            steps = kept if C <= FROM else _steps(pairs, some, to, C)
            longer = _sums(before, scores, word - 1, some, C)[:, None] + steps
            high, place = _highest(longer)
            origin = tl.where(high > highest, first + place, origin)
            highest = tl.maximum(highest, high)
        tl.store(before + word * C + to, highest, mask=to < C)
        tl.store(origins + word * C + to, origin, mask=to < C)
        tl.debug_barrier()
    ended = _sums(before, scores, length - 1, to, C) + tl.load(ends + to, mask=to < C, other=0.0)
    highest, tag = _highest(ended)
    tl.store(best + sentence, tl.where(highest < _INF, highest, float("nan")))
    for first in range(length - 1, num_words, _WORDS):  # the last word and the padding
        words = first + tl.arange(0, _WORDS)
        tl.store(paths + words, tag, mask=words < num_words)
    for back in range(1, length):
        tag = tl.load(origins + (length - back) * C + tag).to(tl.int32)
        tl.store(paths + length - back - 1, tag)
