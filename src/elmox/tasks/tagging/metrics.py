"""Scores of tags: accuracy over words, and F1 of spans as conlleval computes it.

conlleval is the script of the CoNLL shared tasks (2000 to 2003). A predicted span is right if its
start, end and label are. Precision, recall and F1 are over all spans of all sentences
(micro-averaged), and 0 if they would divide by 0. Ill-formed tags are read leniently, gold and
predicted alike: see `elmox.tasks.tagging.spans.spans_of`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import Tally, add_by_label, percent, tallies_by_label
from elmox.tasks.tagging.spans import spans_of


@dataclass(frozen=True)
class Accuracy:
    """Counts of correct tags and of all tags; accuracies of sentences add up."""

    num_correct: int
    num_all: int

    def __add__(self, other: "Accuracy") -> "Accuracy":
        return Accuracy(self.num_correct + other.num_correct, self.num_all + other.num_all)

    @property
    def percent(self) -> float:
        """The share of correct tags, in percent; 0 if there are none."""
        return percent(self.num_correct, self.num_all)


@dataclass(frozen=True)
class SpanScores:
    """The scores of conlleval, in percent; scores of sentences add up.

    Attributes:
        overall: spans of all labels together.
        by_label: spans of each label, sorted by label.
        tags: accuracy of the tags, which depends on the scheme, unlike that of the spans.
    """

    overall: Tally
    by_label: dict[str, Tally]
    tags: Accuracy

    def __add__(self, other: "SpanScores") -> "SpanScores":
        by_label = add_by_label(self.by_label, other.by_label)
        return SpanScores(self.overall + other.overall, by_label, self.tags + other.tags)


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Accuracy:
    """Score the tags of sentences, one sequence per sentence, over all words."""
    _check_aligned(gold, predicted)
    num_correct = sum(
        tag == guess
        for tags, guesses in zip(gold, predicted, strict=True)
        for tag, guess in zip(tags, guesses, strict=True)
    )
    return Accuracy(num_correct, sum(map(len, gold)))


def score_spans(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScores:
    """Score the spans of sentences, given by their tags, one sequence per sentence.

    The tags may be of any scheme, even of two schemes. Only the accuracy of tags expects the same
    scheme on both sides.
    """
    accuracy = score_tags(gold, predicted)
    num_gold, num_predicted, num_correct = Counter[str](), Counter[str](), Counter[str]()
    for tags, guessed_tags in zip(gold, predicted, strict=True):
        # Read as BIOUL, tags of BIO and IOB1 have the spans that they have in their own scheme.
        spans, guesses = spans_of(tags, "BIOUL"), spans_of(guessed_tags, "BIOUL")
        num_gold.update(span.label for span in spans)
        num_predicted.update(span.label for span in guesses)
        num_correct.update(span.label for span in set(spans) & set(guesses))
    return SpanScores(*tallies_by_label(num_correct, num_predicted, num_gold), accuracy)


def _check_aligned(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    """Raise an `ElmoxError` unless both have as many sentences, each with as many tags."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} sentences predicted, expected {len(gold)} as in gold")
    for number, (tags, guesses) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(tags) != len(guesses):
            raise ElmoxError(
                f"sentence {number} has {len(guesses)} predicted tags, expected {len(tags)}: "
                "one per word, as in gold"
            )
