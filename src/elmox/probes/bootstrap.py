"""Confidence intervals of accuracies: the bootstrap over sentences.

Words of one sentence are not independent, so whole sentences are drawn with replacement. Two
systems are compared on the same draws (paired), which removes the variance that they share.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError

_DRAWS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Interval:
    """A figure and its confidence interval: percent, or percentage points for a difference."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.2f} [{self.low:.2f}, {self.high:.2f}]"


def accuracy_interval(
    right: NDArray[Any],
    groups: NDArray[np.int64],
    *,
    other: NDArray[Any] | None = None,
    samples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """Return an accuracy, or the difference of two, with its percentile bootstrap interval.

    Args:
        right: (n,) whether each item is right, or its mean (0 to 1) over several runs.
        groups: (n,) the sentence of each item; any numbers, in any order.
        other: (n,) the same items of another system, for the difference `right - other`.
        samples: number of bootstrap samples.
        seed: of the draws, which depend only on it and on the number of groups.
        level: share of the samples inside the interval.
    """
    if right.ndim != 1 or groups.shape != right.shape or not right.size:
        raise ElmoxError(
            f"{right.shape} items in groups {groups.shape}: expected a group for each, at least one"
        )
    if other is not None and other.shape != right.shape:
        raise ElmoxError(f"{other.shape} items against {right.shape}: expected the same items")
    if samples < 1 or not 0 < level < 1:
        raise ElmoxError(f"samples={samples}, level={level}: expected samples >= 1, 0 < level < 1")
    gains = right.astype(np.float64) - (0.0 if other is None else other.astype(np.float64))
    _, group_ids = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group_ids).astype(np.float64)
    sums = np.bincount(group_ids, weights=gains).astype(np.float64)
    drawn = 100 * _resampled_means(sums, sizes, samples, seed)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(100 * float(gains.mean()), float(low), float(high))


def _resampled_means(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], samples: int, seed: int
) -> NDArray[np.float64]:
    """Return the mean over items (samples,) of all groups, drawn with replacement."""
    generator = np.random.default_rng(seed)
    number = len(sums)
    means = np.empty(samples)
    step = max(1, _DRAWS_AT_ONCE // number)
    for start in range(0, samples, step):
        drawn = generator.integers(number, size=(min(step, samples - start), number))
        means[start : start + len(drawn)] = sums[drawn].sum(1) / sizes[drawn].sum(1)
    return means
