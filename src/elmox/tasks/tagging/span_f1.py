"""F1 of spans, as conlleval, the script of the CoNLL shared tasks (2000 to 2003), reckons it.

A predicted span is right when begin, end and label are. Precision, recall and F1 are over all spans
of all sentences (micro-averaged), and 0 where they would divide by nothing. Ill-formed tags are
read leniently, gold and predicted alike: see `elmox.tasks.tagging.spans.spans_of`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elmox.tasks.metrics.accuracy import Accuracy, check_aligned, score_tags
from elmox.tasks.metrics.tally import Tally
from elmox.tasks.tagging.spans import spans_of


@dataclass(frozen=True)
class SpanScores:
    """What conlleval finds, in percent; scores of sentences add up.

    Attributes:
        overall: spans of all labels together.
        by_label: spans of each label, sorted by label.
        tags: how many words have exactly the right tag. That depends on the scheme; spans do not.
    """

    overall: Tally
    by_label: dict[str, Tally]
    tags: Accuracy

    def __add__(self, other: "SpanScores") -> "SpanScores":
        labels = sorted({*self.by_label, *other.by_label})
        nothing = Tally()
        by_label = {
            label: self.by_label.get(label, nothing) + other.by_label.get(label, nothing)
            for label in labels
        }
        return SpanScores(self.overall + other.overall, by_label, self.tags + other.tags)

    @property
    def precision(self) -> float:
        """Right ones of a hundred spans predicted."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Right ones of a hundred spans that there are."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return self.overall.f1

    @property
    def accuracy(self) -> float:
        """Right ones of a hundred tags."""
        return self.tags.percent

    def table(self) -> str:
        """What conlleval prints, character by character; it ends with a newline."""
        overall = self.overall
        lines = [
            f"processed {self.tags.num_all} tokens with {overall.gold:.0f} phrases; "
            f"found: {overall.predicted:.0f} phrases; correct: {overall.right:.0f}."
        ]
        if self.tags.num_all:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {_percentages(overall)}")
        lines += [
            f"{label:>17}: {_percentages(tally)}  {tally.predicted:.0f}"
            for label, tally in self.by_label.items()
        ]
        return "\n".join(lines) + "\n"


def score_spans(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScores:
    """Score predicted tags, a sequence a sentence, against gold ones.

    They may be of any scheme, even of two. For the accuracy of tags to mean something, they should
    be of the same.
    """
    check_aligned(gold, predicted)
    num_gold, num_predicted, num_right = Counter[str](), Counter[str](), Counter[str]()
    for own, others in zip(gold, predicted, strict=True):
        # Read as BIOUL, tags of BIO and IOB1 have the spans that they have in their own scheme.
        spans, guesses = spans_of(own, "BIOUL"), spans_of(others, "BIOUL")
        num_gold.update(span.label for span in spans)
        num_predicted.update(span.label for span in guesses)
        num_right.update(span.label for span in set(spans) & set(guesses))
    return SpanScores(
        overall=Tally.of(num_right.total(), num_predicted.total(), num_gold.total()),
        by_label={
            label: Tally.of(num_right[label], num_predicted[label], num_gold[label])
            for label in sorted({*num_gold, *num_predicted})
        },
        tags=score_tags(gold, predicted),
    )


def _percentages(tally: Tally) -> str:
    return f"precision: {tally.precision:6.2f}%; recall: {tally.recall:6.2f}%; FB1: {tally.f1:6.2f}"
