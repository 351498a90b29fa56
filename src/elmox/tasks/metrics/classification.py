"""One label per item: accuracy, and the F1 of each label."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import Tally, percent, tallies_by_label


@dataclass(frozen=True)
class ClassificationScore:
    """Counts of items and of correct labels, and a tally of each label, sorted by label."""

    num_items: int
    num_correct: int
    by_label: Mapping[str, Tally]

    @property
    def accuracy(self) -> float:
        """The share of correct labels, in percent."""
        return percent(self.num_correct, self.num_items)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels that are in the gold standard or were predicted."""
        return sum(tally.f1 for tally in self.by_label.values()) / max(1, len(self.by_label))


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> ClassificationScore:
    """Score predicted labels, one per item."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} labels predicted, expected {len(gold)} as in gold")
    correct = Counter(label for label, other in zip(gold, predicted, strict=True) if label == other)
    _, by_label = tallies_by_label(correct, Counter(predicted), Counter(gold))
    return ClassificationScore(len(gold), correct.total(), by_label)
