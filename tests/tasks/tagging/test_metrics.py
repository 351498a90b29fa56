"""Span F1 against what conlleval prints, worked by hand, and against seqeval."""

import random

import pytest

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import Tally
from elmox.tasks.tagging.metrics import Accuracy, SpanScores, score_spans, score_tags
from elmox.tasks.tagging.spans import converted

GOLD = """\
B-NP I-NP O B-VP I-VP B-creative-work I-creative-work O
B-NP B-NP I-NP O I-PP
I-NP I-VP O B-LST
O O B-NP I-NP I-NP
"""
PREDICTED = """\
B-NP I-NP O B-VP O B-creative-work I-creative-work O
B-NP I-NP I-NP O B-PP
B-NP I-VP B-ADJP O
O I-NP I-NP I-NP I-NP
"""
# Printed for these by the shared tasks' own Perl (conlleval 2004-01-26, its options left out).
CONLLEVAL = """\
processed 22 tokens with 10 phrases; found: 9 phrases; correct: 5.
accuracy:  63.64%; precision:  55.56%; recall:  50.00%; FB1:  52.63
             ADJP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1
              LST: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
               NP: precision:  50.00%; recall:  40.00%; FB1:  44.44  4
               PP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
               VP: precision:  50.00%; recall:  50.00%; FB1:  50.00  2
    creative-work: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
"""


def tagged(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def table(scores: SpanScores) -> str:
    """The report of conlleval, character by character."""
    overall, tags = scores.overall, scores.tags
    lines = [
        f"processed {tags.num_all} tokens with {overall.gold:.0f} phrases; "
        f"found: {overall.predicted:.0f} phrases; correct: {overall.correct:.0f}."
    ]
    if tags.num_all:
        lines.append(f"accuracy: {tags.percent:6.2f}%; {percentages(overall)}")
    lines += [
        f"{label:>17}: {percentages(tally)}  {tally.predicted:.0f}"
        for label, tally in scores.by_label.items()
    ]
    return "\n".join(lines) + "\n"


def percentages(tally: Tally) -> str:
    return f"precision: {tally.precision:6.2f}%; recall: {tally.recall:6.2f}%; FB1: {tally.f1:6.2f}"


def test_the_numbers_of_conlleval() -> None:
    scores = score_spans(tagged(GOLD), tagged(PREDICTED))
    assert table(scores) == CONLLEVAL
    assert scores.overall == Tally.of(correct=5, predicted=9, gold=10)
    assert scores.by_label["NP"] == Tally.of(correct=2, predicted=4, gold=5)
    assert scores.overall.precision == 500 / 9
    assert scores.overall.recall == 50
    assert scores.overall.f1 == pytest.approx(1000 / 19)
    assert scores.tags.percent == 1400 / 22


@pytest.mark.parametrize(
    ("gold", "predicted", "printed"),
    [
        (
            "O O",
            "O O",
            """\
processed 2 tokens with 0 phrases; found: 0 phrases; correct: 0.
accuracy: 100.00%; precision:   0.00%; recall:   0.00%; FB1:   0.00
""",
        ),
        (
            "B-A",
            "O",
            """\
processed 1 tokens with 1 phrases; found: 0 phrases; correct: 0.
accuracy:   0.00%; precision:   0.00%; recall:   0.00%; FB1:   0.00
                A: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
""",
        ),
        (
            "O",
            "I-A",
            """\
processed 1 tokens with 0 phrases; found: 1 phrases; correct: 0.
accuracy:   0.00%; precision:   0.00%; recall:   0.00%; FB1:   0.00
                A: precision:   0.00%; recall:   0.00%; FB1:   0.00  1
""",
        ),
        ("", "", "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"),
    ],
)
def test_degenerate_cases(gold: str, predicted: str, printed: str) -> None:
    assert table(score_spans(tagged(gold), tagged(predicted))) == printed


def test_all_right_and_all_wrong() -> None:
    gold = tagged(GOLD)
    scores = score_spans(gold, gold)
    assert (
        scores.overall.precision,
        scores.overall.recall,
        scores.overall.f1,
        scores.tags.percent,
    ) == (100, 100, 100, 100)
    longer = score_spans(tagged("B-A I-A O"), tagged("B-A I-A I-A"))  # overlapping is not right
    assert longer.overall == Tally.of(correct=0, predicted=1, gold=1)
    assert (longer.overall.f1, longer.tags.percent) == (0, 200 / 3)


def test_spans_end_with_their_sentence() -> None:
    gold = tagged("O B-A\nI-A O")
    assert score_spans(gold, gold).overall == Tally.of(correct=2, predicted=2, gold=2)


def test_scores_of_sentences_add_up() -> None:
    gold, predicted = tagged(GOLD), tagged(PREDICTED)
    total = score_spans([], [])
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        total += score_spans([gold_tags], [predicted_tags])
    assert total == score_spans(gold, predicted)
    assert table(total) == CONLLEVAL


def test_spans_do_not_depend_on_the_scheme() -> None:
    gold, predicted = (
        [converted(tags, "BIO", "BIOUL") for tags in tagged(text)] for text in (GOLD, PREDICTED)
    )
    expected = score_spans(tagged(GOLD), tagged(PREDICTED))
    for score in (score_spans(gold, predicted), score_spans(gold, tagged(PREDICTED))):
        assert (score.overall, score.by_label) == (expected.overall, expected.by_label)
    assert score_spans(gold, tagged(GOLD)).overall.f1 == 100
    assert score_spans(gold, tagged(GOLD)).tags.percent < 100


def test_unscorable_inputs() -> None:
    with pytest.raises(ElmoxError, match="sentence 1 has 1 predicted tags, expected 2"):
        score_spans([["O", "O"]], [["O"]])
    with pytest.raises(ElmoxError, match="the tag 'NN' is not one of BIOUL"):
        score_spans([["NN"]], [["NN"]])


@pytest.mark.parametrize("prefixes", ["BI", "BIES"])
def test_as_seqeval(prefixes: str) -> None:
    """Its default mode reads ill-formed tags as conlleval does; it warns where that prints 0."""
    metrics = pytest.importorskip("seqeval.metrics", reason="no seqeval")
    rng = random.Random(0)
    pool = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in ("A", "B-C", "D"))]
    for _ in range(30):
        gold = [rng.choices(pool, k=rng.randint(1, 9)) for _ in range(8)]
        predicted = [[rng.choice([tag, rng.choice(pool)]) for tag in tags] for tags in gold]
        scores = score_spans(gold, predicted)
        assert scores.overall.precision == pytest.approx(
            100 * metrics.precision_score(gold, predicted)
        )
        assert scores.overall.recall == pytest.approx(100 * metrics.recall_score(gold, predicted))
        assert scores.overall.f1 == pytest.approx(100 * metrics.f1_score(gold, predicted))
        assert scores.tags.percent == pytest.approx(100 * metrics.accuracy_score(gold, predicted))


def test_accuracy_of_tags() -> None:
    assert score_tags([["N", "V"], [], ["N"]], [["N", "N"], [], ["V"]]) == Accuracy(1, 3)
    assert (Accuracy(1, 2) + Accuracy(0, 1)).percent == pytest.approx(33.3333, abs=1e-4)
    assert score_tags([], []).percent == 0


def test_tags_that_cannot_be_compared() -> None:
    with pytest.raises(ElmoxError, match="2 sentences predicted, expected 1"):
        score_tags([["a"]], [["a"], ["a"]])
    with pytest.raises(ElmoxError, match="sentence 2 has 2 predicted tags, expected 1"):
        score_tags([["a"], ["a"]], [["a"], ["a", "b"]])
