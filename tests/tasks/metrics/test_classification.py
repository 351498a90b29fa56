"""Accuracy and macro-F1."""

import pytest

from elmox.errors import ElmoxError
from elmox.tasks.metrics.classification import score_labels
from elmox.tasks.metrics.tally import Tally


def test_accuracy_and_the_mean_f1_of_labels() -> None:
    # yes: 2 of 3 predicted are right, 2 of 2 found: F1 4/5. no: 1 of 1, 1 of 2: F1 2/3.
    scores = score_labels(["yes", "yes", "no", "no"], ["yes", "yes", "yes", "no"])
    assert (scores.num_items, scores.num_correct, scores.accuracy) == (4, 3, 75.0)
    assert scores.by_label == {"no": Tally.of(1, 1, 2), "yes": Tally.of(2, 3, 2)}
    assert scores.macro_f1 == pytest.approx(100 * (4 / 5 + 2 / 3) / 2)


def test_a_label_that_is_only_predicted_counts_too() -> None:
    # yes: 1 of 1, 1 of 2: F1 2/3. maybe: 0 of 1.
    scores = score_labels(["yes", "yes"], ["yes", "maybe"])
    assert scores.macro_f1 == pytest.approx(100 * (2 / 3 + 0) / 2)


def test_nothing_and_all_wrong() -> None:
    nothing, wrong = score_labels([], []), score_labels(["a", "b"], ["b", "a"])
    assert (nothing.accuracy, nothing.macro_f1) == (wrong.accuracy, wrong.macro_f1) == (0.0, 0.0)
    right = score_labels(["a", "b"], ["a", "b"])
    assert (right.accuracy, right.macro_f1) == (100.0, 100.0)


def test_as_many_labels_as_items() -> None:
    with pytest.raises(ElmoxError, match="1 labels predicted, expected 2 as in gold"):
        score_labels(["a", "b"], ["a"])
