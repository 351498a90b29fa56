"""Groups of similar uses: the senses of a word, as far as its vectors separate them.

k-means on unit vectors, for every number of groups up to a limit. The number with the highest
silhouette is chosen, or one group if none separates the uses. Starts are drawn with a fixed seed,
so that the same index gives the same groups. Only a sample of the uses takes part in this; then
every use joins the nearest center.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from elmox.search.quantized import Float32
from elmox.search.uses import Use

SAMPLE = 1000  # uses; their distances are a table of its square
MIN_SILHOUETTE = 0.06  # below it, groups are no more separate than those of a single sense
MIN_USES = 4  # per group, on average
NUM_STARTS = 5
NUM_STEPS = 50

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Sense:
    """A group of uses of one word.

    Attributes:
        num_uses: number of uses in it.
        share: its share of all uses of the word.
        examples: the uses nearest to its center.
        rows: numbers of all its uses, as indexes into `OccurrenceIndex.uses(word)`.
    """

    num_uses: int
    share: float
    examples: list[Use]
    rows: list[int] = field(repr=False)


@dataclass(frozen=True)
class Groups:
    """Groups of vectors, largest first.

    Attributes:
        labels: (N,) the group of each vector.
        nearest: per group, its vectors by distance to the center.
        silhouette: mean silhouette of the sample; 0 for a single group.
    """

    labels: Labels
    nearest: Sequence[NDArray[np.int64]]
    silhouette: float


def group(vectors: Float32, num_groups: int | None, max_groups: int) -> Groups:
    """Group unit vectors (N, D).

    Args:
        vectors: the vectors.
        num_groups: number of groups; None to choose one from 1 to `max_groups`.
        max_groups: largest number that is tried.
    """
    sample = vectors[np.unique(np.linspace(0, len(vectors) - 1, SAMPLE).astype(np.int64))]
    distances = _distances(sample, sample)
    limit = min(max_groups, len(sample) // MIN_USES)
    numbers = range(2, limit + 1) if num_groups is None else [min(num_groups, len(sample))]
    best, best_score = sample.mean(axis=0, keepdims=True), MIN_SILHOUETTE
    for number in numbers:
        centers, labels = k_means(sample, number)
        score = silhouette(distances, labels)
        if num_groups is not None or score > best_score:
            best, best_score = centers, score
    to_centers = _distances(vectors, best)
    labels = to_centers.argmin(axis=1)
    sizes = np.bincount(labels, minlength=len(best))
    order = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
    number_of = np.empty(len(best), np.int64)
    number_of[order] = np.arange(len(order))
    nearest = [
        indexes[np.argsort(to_centers[indexes, old], kind="stable")]
        for old in order.tolist()
        for indexes in [np.flatnonzero(labels == old)]
    ]
    labels = number_of[labels]
    return Groups(labels, nearest, best_score if len(order) > 1 else 0.0)


def k_means(vectors: Float32, number: int) -> tuple[Float32, Labels]:
    """Return the centers (K, D) and labels (N,) of the best of several starts."""
    rng = np.random.default_rng(0)
    best: tuple[float, Float32, Labels] | None = None
    for _ in range(NUM_STARTS):
        centers = _first_centers(vectors, number, rng)
        labels = np.full(len(vectors), -1)
        for _ in range(NUM_STEPS):
            distances = _distances(vectors, centers)
            new = distances.argmin(axis=1)
            if (new == labels).all():
                break
            labels = new
            for k in np.unique(labels):
                centers[k] = vectors[labels == k].mean(axis=0)
        loss = float((distances.min(axis=1) ** 2).sum())
        if best is None or loss < best[0]:
            best = loss, centers, labels
    assert best is not None
    return best[1], best[2]


def silhouette(distances: Float32, labels: Labels) -> float:
    """Return the mean silhouette (Rousseeuw 1987) of groups, by a table of distances (N, N)."""
    groups = np.unique(labels)
    if len(groups) < 2:
        return 0.0
    sizes = np.array([np.count_nonzero(labels == k) for k in groups])
    sums = np.stack([distances[:, labels == k].sum(axis=1) for k in groups], axis=1)
    group_of = np.searchsorted(groups, labels)
    rows = np.arange(len(labels))
    size = sizes[group_of]
    inside = sums[rows, group_of] / np.maximum(size - 1, 1)
    means = sums / sizes
    means[rows, group_of] = np.inf
    outside = means.min(axis=1)
    width = np.maximum(np.maximum(inside, outside), np.finfo(np.float32).tiny)
    return float(np.where(size > 1, (outside - inside) / width, 0.0).mean())


def plane(vectors: Float32) -> Float32:
    """Return the first two principal components of some vectors, (N, 2), for a picture."""
    middle = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(middle.T @ middle)
    points = np.zeros((len(vectors), 2), np.float32)
    points[:, : min(2, len(axes))] = middle @ axes[:2].T
    return points


def _first_centers(vectors: Float32, number: int, rng: np.random.Generator) -> Float32:
    """Draw centers far from each other (k-means++)."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = _distances(vectors, vectors[chosen])[:, 0] ** 2
    while len(chosen) < number:
        total = float(nearest.sum(dtype=np.float64))
        if total > 0:
            weights = nearest.astype(np.float64) / total
            chosen.append(int(rng.choice(len(vectors), p=weights / weights.sum())))
        else:
            chosen.append(int(rng.integers(len(vectors))))
        nearest = np.minimum(nearest, _distances(vectors, vectors[chosen[-1:]])[:, 0] ** 2)
    return vectors[chosen].copy()


def _distances(vectors: Float32, others: Float32) -> Float32:
    """Return the Euclidean distances of (N, D) and (M, D), (N, M)."""
    squares = (
        np.square(vectors).sum(axis=1)[:, None]
        + np.square(others).sum(axis=1)
        - 2 * vectors @ others.T
    )
    distances: Float32 = np.sqrt(np.maximum(squares, 0))
    return distances
