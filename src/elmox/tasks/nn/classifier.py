"""The end of networks that classify: scores, (N, C) for N texts and C classes, to classes."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from elmox.io.transfer import to_device

Probabilities: TypeAlias = Mapping[str, float]  # of each class


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
