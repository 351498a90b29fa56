"""The linear-chain conditional random field on top of the paper's taggers (Lafferty et al. 2001).

A sequence of tags scores the sum of its words' scores and of its transitions' (start, from tag to
tag, end); its probability is the softmax of that over all sequences. The sum over them all goes
word by word (the forward algorithm), and so does the search for the best (Viterbi's). On a GPU with
Triton a kernel goes through all words at once (`elmox.kernels.crf.triton_kernels`).

Shapes: B sentences, T words, C tags.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.kernels.dispatch import why_not_triton

# The score of what is not allowed. Finite: infinities would make gradients NaN where a tag cannot
# be reached at all. Any sum with it in it is far below all others, and exp() of it is exactly 0.
_NEVER = -1e30

# The kernels keep (C, C) sums for every sentence, and look at all tags after one at the same time.
MOST_TAGS_OF_KERNELS = 256


class Crf(nn.Module):
    """Transition scores, learned from zero, and which transitions there are.

    Whatever the precision of the scores, it computes in float32 at least, inside autocast too.
    What is allowed follows from the tags, and is not part of the state dict.
    """

    may_start: Tensor
    may_end: Tensor
    may_follow: Tensor

    def __init__(
        self,
        num_tags: int,
        starts: NDArray[Any] | Tensor | None = None,
        ends: NDArray[Any] | Tensor | None = None,
        pairs: NDArray[Any] | Tensor | None = None,
    ) -> None:
        """All is allowed by default.

        Args:
            num_tags: C.
            starts: (C,) whether a sentence may start with a tag.
            ends: (C,) whether it may end with it.
            pairs: (C, C) whether the second tag may follow the first.
        """
        super().__init__()
        self.start_scores = nn.Parameter(torch.zeros(num_tags))
        self.end_scores = nn.Parameter(torch.zeros(num_tags))
        self.pair_scores = nn.Parameter(torch.zeros(num_tags, num_tags))  # from, to
        for name, given, shape in (
            ("may_start", starts, (num_tags,)),
            ("may_end", ends, (num_tags,)),
            ("may_follow", pairs, (num_tags, num_tags)),
        ):
            self.register_buffer(name, _allowed(given, shape), persistent=False)

    def forward(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The mean over sentences of the negative log-likelihood of their tags: ().

        Args:
            scores: (B, T, C) of each tag for each word; anything at padding.
            tags: (B, T) the right ones, in an allowed order; anything at padding.
            mask: (B, T) True for words, False for the padding after them.
        """
        _check_shapes(scores, mask)
        assert tags.shape == mask.shape, f"tags {tuple(tags.shape)}, mask {tuple(mask.shape)}"
        tags = tags.where(mask, 0)
        if scores.device.type == "cpu":  # elsewhere the host would have to wait for the answer
            _check_padding(mask)
            assert self._are_allowed(tags, mask), "tags in an order that is not allowed"
        with torch.autocast(scores.device.type, enabled=False):
            scores = _precise(scores)
            return _losses(scores, tags, mask, *self._transitions(scores.dtype)).mean()

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tags of each sentence, as many as it has words.

        Of equally good sequences it is the one whose last tag has the lowest number, then the last
        but one, and so on.

        Args:
            scores: (B, T, C) of each tag for each word; anything at padding.
            mask: (B, T) True for words, False for the padding after them.
        """
        _check_shapes(scores, mask)
        _check_padding(mask)
        with torch.autocast(scores.device.type, enabled=False):
            scores = _precise(scores)
            best, paths = _search(scores, mask, *self._transitions(scores.dtype))
        assert bool((best > _NEVER / 2).all()), (
            "no allowed sequence of tags is as long as the sentence, or its scores are not finite"
        )
        lengths = mask.sum(1).tolist()
        return [path[:length] for path, length in zip(paths.tolist(), lengths, strict=True)]

    def _transitions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of starts (C,), ends (C,) and pairs (C, C), in which the disallowed are never."""
        return (
            torch.where(self.may_start, self.start_scores.to(dtype), _NEVER),
            torch.where(self.may_end, self.end_scores.to(dtype), _NEVER),
            torch.where(self.may_follow, self.pair_scores.to(dtype), _NEVER),
        )

    def _are_allowed(self, tags: Tensor, mask: Tensor) -> bool:
        pairs = self.may_follow[tags[:, :-1], tags[:, 1:]] | ~mask[:, 1:]
        ends = self.may_end[_last(tags, mask)]
        return bool(pairs.all() & ends.all() & self.may_start[tags[:, 0]].all())


def _allowed(given: NDArray[Any] | Tensor | None, shape: tuple[int, ...]) -> Tensor:
    if given is None:
        return torch.ones(shape, dtype=torch.bool)
    allowed = torch.as_tensor(given, dtype=torch.bool).clone()
    assert allowed.shape == shape, f"constraints {tuple(allowed.shape)}, expected {shape}"
    return allowed


def _check_shapes(scores: Tensor, mask: Tensor) -> None:
    assert scores.dim() == 3, f"scores {tuple(scores.shape)}, expected (B, T, C)"
    assert mask.shape == scores.shape[:2], f"mask {tuple(mask.shape)} of {tuple(scores.shape)}"
    assert mask.dtype == torch.bool, f"a mask of {mask.dtype}, expected bool"
    assert mask.numel(), f"no words in scores {tuple(scores.shape)}"


def _check_padding(mask: Tensor) -> None:
    assert bool(mask[:, 0].all()), "a sentence without words: the mask has no True in its row"
    assert bool((mask[:, 1:] <= mask[:, :-1]).all()), "padding before words: expected it after them"


def _precise(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _last(tags: Tensor, mask: Tensor) -> Tensor:
    """The tag of each sentence's last word: (B,)."""
    return tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)


def _has_kernels(scores: Tensor) -> bool:
    return scores.shape[2] <= MOST_TAGS_OF_KERNELS and why_not_triton(scores) is None


def _losses(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """The negative log-likelihood of these tags: (B,)."""
    if _has_kernels(scores):
        from elmox.kernels.crf import triton_kernels as crf_triton

        return crf_triton.losses(scores, tags, mask, starts, ends, pairs)
    right = _path_score(scores, tags, mask, starts, ends, pairs)
    return _log_partition(scores, mask, starts, ends, pairs) - right


def _search(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """The score (B,) of the best sequence and its tags (B, T), at padding the last one again."""
    if _has_kernels(scores):
        from elmox.kernels.crf import triton_kernels as crf_triton

        return crf_triton.best_paths(scores, mask, starts, ends, pairs)
    return _best_paths(scores, mask, starts, ends, pairs)


def _path_score(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """The score of these tags: (B,)."""
    words = scores.gather(2, tags.unsqueeze(2)).squeeze(2).masked_fill(~mask, 0)  # (B, T)
    steps = pairs[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0)  # (B, T-1)
    return starts[tags[:, 0]] + words.sum(1) + steps.sum(1) + ends[_last(tags, mask)]


def _log_partition(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """The logarithm of the sum of exp(score) over all sequences: (B,)."""
    into = pairs.T.contiguous()  # (to, from): the sum runs along memory
    # Taken apart once: the gradients of slices would each be as large as all the scores.
    (first, *rest), (_, *reals) = scores.unbind(1), mask.unsqueeze(2).unbind(1)
    sums = starts + first  # (B, C): of all sequences up to here that end in this tag
    for score, real in zip(rest, reals, strict=True):
        longer = torch.logsumexp(sums.unsqueeze(1) + into, -1) + score
        sums = torch.where(real, longer, sums)
    return torch.logsumexp(sums + ends, -1)


def _best_paths(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """The score (B,) of the best sequence and its tags (B, T), at padding the last one again."""
    into = pairs.T.contiguous()  # (to, from)
    (first, *rest), (_, *reals) = scores.unbind(1), mask.unsqueeze(2).unbind(1)
    same = torch.arange(scores.shape[2], device=scores.device)
    best = starts + first  # (B, C): of all sequences up to here that end in this tag
    origins = []  # (B, C) for each word but the first: the tag before, when it has this tag
    for score, real in zip(rest, reals, strict=True):
        longer, origin = (best.unsqueeze(1) + into).max(-1)  # the first of equals, says torch
        best = torch.where(real, longer + score, best)
        origins.append(torch.where(real, origin, same))
    score, tag = (best + ends).max(-1)
    path = [tag]
    for origin in reversed(origins):
        path.append(origin.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return score, torch.stack(path[::-1], 1)
