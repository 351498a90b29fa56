"""The conditional random field in plain torch, word by word.

The sum over all sequences is the forward algorithm, the search for the best one is Viterbi's.

Shapes: B sentences, T words, C tags. Masks are True for words and False for the padding after them.
"""

import torch
from torch import Tensor

# The score of a disallowed transition. Finite: infinities would make gradients NaN where a tag
# cannot be reached at all. A sum that contains it is far below all others, and its exp() is 0.
DISALLOWED = -1e30


def plain_losses(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """Return the negative log-likelihood of each sentence's tags; see `dispatch.losses`."""
    path_score = _path_score(scores, tags, mask, starts, ends, pairs)
    return _log_partition(scores, mask, starts, ends, pairs) - path_score


def plain_best_paths(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best sequences' scores and tags; see `dispatch.best_paths`."""
    into = pairs.T.contiguous()  # (to, from)
    (first, *rest), (_, *reals) = scores.unbind(1), mask.unsqueeze(2).unbind(1)
    same = torch.arange(scores.shape[2], device=scores.device)
    best = starts + first  # (B, C): of all sequences up to here that end in this tag
    origins = []  # (B, C) for each word but the first: the tag before, when it has this tag
    for score, real in zip(rest, reals, strict=True):
        longer, origin = (best.unsqueeze(1) + into).max(-1)  # torch returns the first of equals
        best = torch.where(real, longer + score, best)
        origins.append(torch.where(real, origin, same))
    score, tag = (best + ends).max(-1)
    path = [tag]
    for origin in reversed(origins):
        path.append(origin.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return score, torch.stack(path[::-1], 1)


def last_tags(tags: Tensor, mask: Tensor) -> Tensor:
    """Return the tag of each sentence's last word: (B, T) -> (B,)."""
    return tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)


def _path_score(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """Return the score of these tags: (B,)."""
    words = scores.gather(2, tags.unsqueeze(2)).squeeze(2).masked_fill(~mask, 0)  # (B, T)
    steps = pairs[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0)  # (B, T-1)
    return starts[tags[:, 0]] + words.sum(1) + steps.sum(1) + ends[last_tags(tags, mask)]


def _log_partition(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """Return the logarithm of the sum of exp(score) over all sequences: (B,)."""
    into = pairs.T.contiguous()  # (to, from): the sum runs along memory
    # Split once: the gradients of slices would each be as large as all the scores.
    (first, *rest), (_, *reals) = scores.unbind(1), mask.unsqueeze(2).unbind(1)
    sums = starts + first  # (B, C): of all sequences up to here that end in this tag
    for score, real in zip(rest, reals, strict=True):
        longer = torch.logsumexp(sums.unsqueeze(1) + into, -1) + score
        sums = torch.where(real, longer, sums)
    return torch.logsumexp(sums + ends, -1)
