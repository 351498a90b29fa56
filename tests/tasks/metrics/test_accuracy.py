"""Accuracy over the words of sentences."""

import pytest

from elmox.errors import ElmoxError
from elmox.tasks.metrics.accuracy import Accuracy, score_tags


def test_counts_and_percent() -> None:
    assert score_tags([["N", "V"], [], ["N"]], [["N", "N"], [], ["V"]]) == Accuracy(1, 3)
    assert (Accuracy(1, 2) + Accuracy(0, 1)).percent == pytest.approx(33.3333, abs=1e-4)
    assert score_tags([], []).percent == 0


def test_what_cannot_be_compared() -> None:
    with pytest.raises(ElmoxError, match="2 sentences predicted, expected 1"):
        score_tags([["a"]], [["a"], ["a"]])
    with pytest.raises(ElmoxError, match="sentence 2 has 2 predicted tags, expected 1"):
        score_tags([["a"], ["a"]], [["a"], ["a", "b"]])
