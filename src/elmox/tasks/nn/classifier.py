"""What networks that put sentences into classes are made of.

Shapes: N sentences, T words, D wide; `mask` (N, T) is true where there is a word, and every
sentence has one. What stands at padding never counts.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from elmox.io.transfer import to_device

Probabilities = Mapping[str, float]  # of each class


def attended(queries: Tensor, words: Tensor, mask: Tensor) -> Tensor:
    """What each query finds: words weighted by the softmax of dot products, (N, Q, D).

    Args:
        queries: (N, Q, D).
        words: (N, T, D), to look at.
        mask: of the words.
    """
    scores = queries @ words.transpose(1, 2)  # (N, Q, T)
    weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(-1)
    return weights @ words


def max_pooled(words: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each column, (N, D)."""
    return words.masked_fill(~mask[..., None], float("-inf")).amax(1)


def mean_pooled(words: Tensor, mask: Tensor) -> Tensor:
    """The mean of each column, (N, D)."""
    return words.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)


def class_loss(scores: Tensor, classes: Sequence[int]) -> Tensor:
    """The mean cross entropy of scores (N, C) and the right classes: ()."""
    return F.cross_entropy(scores, to_device(np.array(classes, np.int64), scores.device))


def class_probabilities(scores: Tensor, names: Sequence[str]) -> list[dict[str, float]]:
    """Scores (N, C) as probabilities of named classes."""
    rows = scores.softmax(-1).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows]


def likeliest(found: Probabilities) -> str:
    """The class with the largest probability."""
    return max(found, key=lambda name: found[name])
