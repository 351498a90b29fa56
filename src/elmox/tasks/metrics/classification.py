"""One label for each item: accuracy, and the F1 of the labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import Tally, percent


@dataclass(frozen=True)
class ClassificationScore:
    """How many items there were, how many are right, and how each label fared, sorted by label."""

    num_items: int
    num_right: int
    by_label: Mapping[str, Tally]

    @property
    def accuracy(self) -> float:
        return percent(self.num_right, self.num_items)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of all labels that are in the gold standard or were predicted."""
        return sum(own.f1 for own in self.by_label.values()) / max(1, len(self.by_label))


def score_labels(gold: Sequence[str], predicted: Sequence[str]) -> ClassificationScore:
    """The score of predicted labels, one an item."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} labels predicted, expected {len(gold)} as in gold")
    right = Counter(own for own, said in zip(gold, predicted, strict=True) if own == said)
    said, wanted = Counter(predicted), Counter(gold)
    return ClassificationScore(
        num_items=len(gold),
        num_right=right.total(),
        by_label={
            label: Tally.of(right[label], said[label], wanted[label])
            for label in sorted({*gold, *predicted})
        },
    )
