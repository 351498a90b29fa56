"""Losses and best paths of a conditional random field, by plain torch or by Triton kernels.

Shapes: B sentences, T words, C tags. Masks are True for words and False for the padding after them.
"""

from torch import Tensor

from elmox.kernels.availability import why_not_triton
from elmox.kernels.crf.plain import plain_best_paths, plain_losses

# The kernels keep (C, C) sums for every sentence and process all tags after one together.
MAX_TAGS_OF_KERNELS = 256


def losses(
    scores: Tensor, tags: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> Tensor:
    """Return the negative log-likelihood of each sentence's tags: (B,).

    Args:
        scores: (B, T, C) of each tag for each word.
        tags: (B, T) the gold ones.
        mask: (B, T).
        starts: (C,) scores of a sentence's first tag; finite, as the next ones.
        ends: (C,) scores of its last tag.
        pairs: (C, C) scores of the second tag after the first.
    """
    if _has_kernels(scores):
        from elmox.kernels.crf import triton_kernels

        return triton_kernels.losses(scores, tags, mask, starts, ends, pairs)
    return plain_losses(scores, tags, mask, starts, ends, pairs)


def best_paths(
    scores: Tensor, mask: Tensor, starts: Tensor, ends: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the score (B,) of the best sequence and its tags (B, T), the last repeated at padding.

    Among equally good tags it is the one with the lowest number. See `losses` for the arguments.
    """
    if _has_kernels(scores):
        from elmox.kernels.crf import triton_kernels

        return triton_kernels.best_paths(scores, mask, starts, ends, pairs)
    return plain_best_paths(scores, mask, starts, ends, pairs)


def _has_kernels(scores: Tensor) -> bool:
    return scores.shape[2] <= MAX_TAGS_OF_KERNELS and why_not_triton(scores) is None
