"""Parts of networks that classify sentences.

Shapes: N sentences, T words, D wide; `mask` (N, T) is true for words, and every sentence has one.
The values at padding never matter.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from elmox.io.transfer import to_device

Probabilities: TypeAlias = Mapping[str, float]  # of each class


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


def class_loss(scores: Tensor, classes: Sequence[int]) -> Tensor:
    """Return the mean cross entropy of scores (N, C) and the gold classes: ()."""
    return F.cross_entropy(scores, to_device(np.array(classes, np.int64), scores.device))


def class_probabilities(scores: Tensor, names: Sequence[str]) -> list[Probabilities]:
    """Return scores (N, C) as probabilities of named classes."""
    rows = scores.softmax(-1).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows]


def most_likely(probabilities: Probabilities) -> str:
    """Return the class with the largest probability."""
    return max(probabilities, key=lambda name: probabilities[name])
