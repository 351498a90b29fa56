"""Accuracy: how many words of sentences have the right tag."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import percent


@dataclass(frozen=True)
class Accuracy:
    """How many are right, of how many; accuracies of sentences add up."""

    num_right: int
    num_all: int

    def __add__(self, other: "Accuracy") -> "Accuracy":
        return Accuracy(self.num_right + other.num_right, self.num_all + other.num_all)

    @property
    def percent(self) -> float:
        """Right ones of a hundred; 0 of nothing."""
        return percent(self.num_right, self.num_all)


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Accuracy:
    """The accuracy of predicted tags, a sequence a sentence, over all words."""
    check_aligned(gold, predicted)
    num_right = sum(
        tag == guess
        for own, others in zip(gold, predicted, strict=True)
        for tag, guess in zip(own, others, strict=True)
    )
    return Accuracy(num_right, sum(map(len, gold)))


def check_aligned(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    """Raise an `ElmoxError` unless both have as many sentences, each with as many tags."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} sentences predicted, expected {len(gold)} as in gold")
    for number, (own, others) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(own) != len(others):
            raise ElmoxError(
                f"sentence {number} has {len(others)} predicted tags, expected {len(own)}: "
                "one a word, as in gold"
            )
