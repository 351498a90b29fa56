"""Words to one vector per sentence, or per query.

Shapes: N sentences, T words, D wide; `mask` (N, T) is true for words, and every sentence has one.
The values at padding never matter.
"""

from torch import Tensor


def attended(queries: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """Return dot-product attention: for each query, the weighted mean of the words, (N, Q, D).

    Args:
        queries: (N, Q, D).
        words: (N, T, D), attended to.
        mask: of the words.
    """
    scores = queries @ words.transpose(1, 2)  # (N, Q, T)
    weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1)
    return weights @ words


def max_pooled(words: Tensor, mask: Tensor) -> Tensor:
    """Return the largest value of each column, (N, D)."""
    return words.masked_fill(~mask[..., None], float("-inf")).amax(1)


def mean_pooled(words: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of each column, (N, D)."""
    return words.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)
