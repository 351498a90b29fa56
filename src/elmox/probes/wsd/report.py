"""The scores of word senses: F1 on every test set and on all of them, with intervals.

Every instance gets one answer, right if it is among the gold keys, so that precision, recall, F1
and accuracy are one figure.
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
from elmox.probes.wsd.probe import SenseAnswer, TrainingCounts
from elmox.probes.wsd.raganato import TEST_SETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "ALL"
FIRST = "first sense"
PAPER = {FIRST: 65.9, "layer 1": 67.4, "layer 2": 69.0}  # Peters et al. 2018, Table 5, on ALL


@dataclass(frozen=True)
class Difference:
    """How much better one system is than another on ALL, in points, on the same sentences."""

    system: str
    other: str
    points: Interval


@dataclass(frozen=True)
class SenseScores:
    """What was scored.

    Attributes:
        num_instances: of every test set, and of ALL.
        num_unseen: of those, how many got the first sense because their entry was never seen.
        f1: for every system (the first sense, then each layer) and set, in percent.
        all_intervals: for every system, its F1 on ALL.
        differences: every layer against the first sense, and against the layer below it.
        samples: of the bootstrap over sentences.
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
    """Scores, and what they are of.

    Attributes:
        facts: model, data, command; shown above the table.
        training: what was found in the tagged corpus.
        scores: of all systems.
    """

    facts: Mapping[str, str]
    training: TrainingCounts
    scores: SenseScores

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        paper = {"paper": PAPER} if _like_the_paper(self.scores) else {}
        scores = asdict(self.scores)
        return {"probe": "wsd", **self.facts, "training": asdict(self.training), **scores, **paper}

    def to_markdown(self) -> str:
        """For people."""
        training = (
            f"{self.training.num_sentences:,} sentences, {self.training.num_words:,} words, "
            f"{self.training.num_tags:,} tags of {self.training.num_senses:,} senses; "
            f"{self.training.num_unknown_tags:,} more tags, of senses that the index has not, are "
            "left out"
        )
        lines = [
            "# Word senses by nearest neighbor",
            "",
            *(f"- {name}: {value}" for name, value in self.facts.items()),
            f"- learned from: {training}",
            f"- intervals: 95%, paired bootstrap over sentences, {self.scores.samples:,} samples, "
            f"seed {self.scores.seed}",
            "",
            "F1 in percent:",
            "",
            *_score_table(self.scores),
            "",
            *_difference_table(self.scores),
        ]
        return "\n".join(lines) + "\n"

    def picture(self) -> "Figure":
        """F1 on ALL, layer by layer, and the first sense as a line across."""
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


def score_answers(
    answers: Sequence[SenseAnswer], *, samples: int = 10_000, seed: int = 0
) -> SenseScores:
    """Score the answers of all systems.

    Args:
        answers: of some test sets, a set after the other.
        samples: of the bootstrap.
        seed: of the bootstrap.
    """
    if not answers:
        raise ElmoxError("no answers to score")
    systems = _right(answers)
    names = np.array([answer.test_set for answer in answers])
    members = {name: names == name for name in dict.fromkeys(names.tolist())}
    members[ALL] = np.ones(len(answers), dtype=bool)
    unseen = np.array([answer.num_seen == 0 for answer in answers])
    sentences = np.array([answer.sentence for answer in answers])
    layers = list(systems)[1:]
    pairs = [(layer, FIRST) for layer in layers]
    pairs += [(upper, lower) for lower, upper in pairwise(layers)]

    def interval(system: str, other: str | None = None) -> Interval:
        against = None if other is None else systems[other]
        return accuracy_interval(
            systems[system], sentences, other=against, samples=samples, seed=seed
        )

    return SenseScores(
        num_instances={name: int(own.sum()) for name, own in members.items()},
        num_unseen={name: int(unseen[own].sum()) for name, own in members.items()},
        f1={
            system: {name: 100 * float(right[own].mean()) for name, own in members.items()}
            for system, right in systems.items()
        },
        all_intervals={system: interval(system) for system in systems},
        differences=tuple(Difference(one, other, interval(one, other)) for one, other in pairs),
        samples=samples,
        seed=seed,
    )


def _right(answers: Sequence[SenseAnswer]) -> dict[str, NDArray[np.bool_]]:
    """For every system, (n,) whether its answers are right."""
    systems = {FIRST: np.array([answer.first in answer.gold for answer in answers])}
    for layer in range(len(answers[0].layers)):
        right = [answer.layers[layer] in answer.gold for answer in answers]
        systems[f"layer {layer}"] = np.array(right)
    return systems


def _like_the_paper(scores: SenseScores) -> bool:
    """Whether the paper's figures are of the same sets and of as many layers."""
    num_layers = len(scores.f1) - 1
    return num_layers == 3 and sorted(scores.num_instances) == sorted([*TEST_SETS, ALL])


def _score_table(scores: SenseScores) -> list[str]:
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
    return [_line([*row, *([""] * (width - len(row)))]) for row in rows]


def _difference_table(scores: SenseScores) -> list[str]:
    lines = [_line(["on ALL", "points", "95% interval"]), _line(["---", "---:", "---:"])]
    for found in scores.differences:
        points = found.points
        lines.append(
            _line(
                [
                    f"{found.system} - {found.other}",
                    f"{points.estimate:+.2f}",
                    f"{points.low:+.2f} to {points.high:+.2f}",
                ]
            )
        )
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
