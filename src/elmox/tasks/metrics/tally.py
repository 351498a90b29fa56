"""Precision, recall and F1 from counts that add up over sentences or documents."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass


def percent(part: float, whole: float) -> float:
    """Return a share in percent; 0 if the whole is 0, as in the official scorers."""
    return 100 * part / whole if whole else 0.0


def format_score(value: float) -> str:
    """Return a percentage with two decimals, or a number of examples, which is an int."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


@dataclass(frozen=True)
class Tally:
    """Predictions counted against the gold standard.

    Attributes:
        correct: the part of the predictions that is right.
        predicted: all predictions.
        recalled: the part of the gold standard that was predicted. It equals `correct` except for
            B-cubed, which weights the two differently.
        gold: the whole gold standard.
    """

    correct: float = 0
    predicted: float = 0
    recalled: float = 0
    gold: float = 0

    @classmethod
    def of(cls, correct: float, predicted: float, gold: float) -> "Tally":
        """Return the counts of a metric that counts every correct prediction as one recalled."""
        return cls(correct, predicted, correct, gold)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.correct + other.correct,
            self.predicted + other.predicted,
            self.recalled + other.recalled,
            self.gold + other.gold,
        )

    @property
    def precision(self) -> float:
        """The share of predictions that is right, in percent."""
        return percent(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """The share of the gold standard that was predicted, in percent."""
        return percent(self.recalled, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def tallies_by_label(
    correct: Counter[str], predicted: Counter[str], gold: Counter[str]
) -> tuple[Tally, dict[str, Tally]]:
    """Return the tally of all labels together, and that of each label, sorted by label."""
    overall = Tally.of(correct.total(), predicted.total(), gold.total())
    return overall, {
        label: Tally.of(correct[label], predicted[label], gold[label])
        for label in sorted({*predicted, *gold})
    }


def add_by_label(first: Mapping[str, Tally], second: Mapping[str, Tally]) -> dict[str, Tally]:
    """Return the sums of two sets of tallies, sorted by label."""
    empty = Tally()
    return {
        label: first.get(label, empty) + second.get(label, empty)
        for label in sorted({*first, *second})
    }
