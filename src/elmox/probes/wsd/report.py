"""Scores of word sense predictions: F1 on every test set and on all of them, with intervals.

Every instance has one prediction, which is right if it is among the gold keys. Precision, recall,
F1 and accuracy are therefore equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.plots import bars
from elmox.probes.bootstrap import Interval, accuracy_interval
from elmox.probes.report import Difference, bootstrap_note, difference_rows, markdown_report
from elmox.probes.wsd.probe import SensePrediction, TrainingCounts
from elmox.probes.wsd.raganato import TEST_SETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "ALL"
FIRST = "first sense"
PAPER = {FIRST: 65.9, "layer 1": 67.4, "layer 2": 69.0}  # Peters et al. 2018, Table 5, on ALL


@dataclass(frozen=True)
class SenseScores:
    """Scores of all systems: the first sense, then each layer.

    Attributes:
        num_instances: of every test set, and of ALL.
        num_unseen: number of these for which the first sense is predicted because their entry was
            never seen.
        f1: of every system on every set, in percent.
        all_intervals: F1 of every system on ALL.
        differences: on ALL: every layer against the first sense, and against the layer below it.
        samples: number of bootstrap samples.
        seed: of the bootstrap.
    """

    num_instances: dict[str, int]
    num_unseen: dict[str, int]
    f1: dict[str, dict[str, float]]
    all_intervals: dict[str, Interval]
    differences: tuple[Difference, ...]
    samples: int
    seed: int


@dataclass(frozen=True)
class SenseReport:
    """Scores with their model and data.

    Attributes:
        facts: model, data, command; shown above the table.
        training: size of the tagged corpus.
        scores: scores of all systems.
    """

    facts: Mapping[str, str]
    training: TrainingCounts
    scores: SenseScores

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        paper = {"paper": PAPER} if _like_the_paper(self.scores) else {}
        scores = asdict(self.scores)
        return {"probe": "wsd", **self.facts, "training": asdict(self.training), **scores, **paper}

    def to_markdown(self) -> str:
        """Return the report for people."""
        training, scores = self.training, self.scores
        return markdown_report(
            "Word senses by nearest neighbor",
            self.facts,
            [
                f"averages of: {training.num_sentences:,} sentences, {training.num_words:,} words, "
                f"{training.num_tags:,} tags of {training.num_senses:,} senses; "
                f"{training.num_unknown_tags:,} more tags, of senses that are not in the index, "
                "are skipped",
                bootstrap_note(scores.samples, scores.seed),
            ],
            "F1 in percent:",
            [_score_rows(scores), difference_rows(f"on {ALL}", scores.differences)],
        )

    def picture(self) -> "Figure":
        """Draw F1 on ALL for each layer, and the first sense as a line."""
        intervals = {**self.scores.all_intervals}
        first = intervals.pop(FIRST)
        return bars(
            "Word senses by nearest neighbor",
            f"F1 on {ALL}, %",
            list(intervals),
            [interval.estimate for interval in intervals.values()],
            [(interval.low, interval.high) for interval in intervals.values()],
            line=first.estimate,
            line_label=f"WordNet's first sense, {first.estimate:.1f}",
        )


def score_predictions(
    predictions: Sequence[SensePrediction], *, samples: int = 10_000, seed: int = 0
) -> SenseScores:
    """Score the predictions of all systems.

    Args:
        predictions: of some test sets, set by set.
        samples: number of bootstrap samples.
        seed: of the bootstrap.
    """
    if not predictions:
        raise ElmoxError("there are no predictions to score: expected at least one")
    systems = _right(predictions)
    names = np.array([prediction.test_set for prediction in predictions])
    members = {name: names == name for name in dict.fromkeys(names.tolist())}
    members[ALL] = np.ones(len(predictions), dtype=bool)
    unseen = np.array([prediction.num_seen == 0 for prediction in predictions])
    sentences = np.array([prediction.sentence for prediction in predictions])
    layers = list(systems)[1:]
    pairs = [(layer, FIRST) for layer in layers]
    pairs += [(upper, lower) for lower, upper in pairwise(layers)]

    def interval(system: str, other: str | None = None) -> Interval:
        against = None if other is None else systems[other]
        return accuracy_interval(
            systems[system], sentences, other=against, samples=samples, seed=seed
        )

    return SenseScores(
        num_instances={name: int(member.sum()) for name, member in members.items()},
        num_unseen={name: int(unseen[member].sum()) for name, member in members.items()},
        f1={
            system: {name: 100 * float(right[member].mean()) for name, member in members.items()}
            for system, right in systems.items()
        },
        all_intervals={system: interval(system) for system in systems},
        differences=tuple(Difference(one, other, interval(one, other)) for one, other in pairs),
        samples=samples,
        seed=seed,
    )


def _right(predictions: Sequence[SensePrediction]) -> dict[str, NDArray[np.bool_]]:
    """Return for every system (n,) whether its predictions are right."""
    systems = {FIRST: np.array([item.first in item.gold for item in predictions])}
    for layer in range(len(predictions[0].layers)):
        right = [item.layers[layer] in item.gold for item in predictions]
        systems[f"layer {layer}"] = np.array(right)
    return systems


def _like_the_paper(scores: SenseScores) -> bool:
    """Return whether the paper's figures are of the same sets and number of layers."""
    num_layers = len(scores.f1) - 1
    return num_layers == 3 and sorted(scores.num_instances) == sorted([*TEST_SETS, ALL])


def _score_rows(scores: SenseScores) -> list[list[str]]:
    paper = _like_the_paper(scores)
    sets = list(scores.num_instances)
    rows = [
        ["", *sets, *(["ALL in the paper"] if paper else [])],
        ["---", *(["---:"] * (len(sets) + paper))],
        ["instances", *(f"{scores.num_instances[name]:,}" for name in sets)],
        ["entry never seen", *(f"{scores.num_unseen[name]:,}" for name in sets)],
    ]
    for system, f1 in scores.f1.items():
        printed = f"{PAPER[system]:.1f}" if system in PAPER else "-"
        rows.append([system, *(f"{f1[name]:.1f}" for name in sets), *([printed] if paper else [])])
    width = len(rows[0])
    return [[*row, *([""] * (width - len(row)))] for row in rows]
