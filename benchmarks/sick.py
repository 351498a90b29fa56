"""SICK's pairs of sentences, and the score of their vectors."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import pearsonr, spearmanr


class Pairs(NamedTuple):
    """Pairs of sentences and how related they are, from 0 to 1."""

    first: list[str]
    second: list[str]
    relatedness: list[float]


class Scores(NamedTuple):
    """Correlations in percent."""

    pearson: float
    spearman: float


def read_pairs(path: Path, limit: int | None) -> Pairs:
    """Read a part of SICK."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:limit]
    return Pairs(
        [row["sentence_A"] for row in rows],
        [row["sentence_B"] for row in rows],
        [(float(row["relatedness_score"]) - 1) / 4 for row in rows],
    )


def correlations(first: Any, second: Any, pairs: Pairs) -> Scores:
    """Return the correlation of cosines with relatedness."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(1) / np.maximum(lengths, 1e-12)
    pearson, spearman = pearsonr(cosines, pairs.relatedness), spearmanr(cosines, pairs.relatedness)
    return Scores(100 * float(pearson.statistic), 100 * float(spearman.statistic))
