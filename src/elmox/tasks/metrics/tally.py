"""Precision, recall and F1 from sums that may be added up over sentences or documents."""

from dataclasses import dataclass


def percent(part: float, whole: float) -> float:
    """A share in percent; 0 of nothing, as the official scorers have it."""
    return 100 * part / whole if whole else 0.0


@dataclass(frozen=True)
class Tally:
    """What was predicted against what should have been.

    Attributes:
        right: how much of what was predicted is right.
        predicted: how much was predicted.
        found: how much of the gold standard was found. Mostly the same as `right`; B-cubed weighs
            the two differently.
        gold: how much there was to find.
    """

    right: float = 0
    predicted: float = 0
    found: float = 0
    gold: float = 0

    @classmethod
    def of(cls, correct: float, predicted: float, gold: float) -> "Tally":
        """What is right has been found."""
        return cls(correct, predicted, correct, gold)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.right + other.right,
            self.predicted + other.predicted,
            self.found + other.found,
            self.gold + other.gold,
        )

    @property
    def precision(self) -> float:
        return percent(self.right, self.predicted)

    @property
    def recall(self) -> float:
        return percent(self.found, self.gold)

    @property
    def f1(self) -> float:
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
