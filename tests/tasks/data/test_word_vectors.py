"""Files of static word vectors, as GloVe and word2vec have them, and broken ones."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from elmox.errors import ElmoxError
from elmox.tasks.data.word_vectors import read_word_vectors

GLOVE = "the 0.5 -1\nof 2 3e-1\n. . . 1 2\nthe 9 9\n日本 0 0.25\n"


@pytest.mark.parametrize("head", ["", "5 2\n"])
def test_both_formats(head: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress((head + GLOVE).encode()))
    vectors = read_word_vectors(path)
    assert vectors.words == ("the", "of", ". . .", "日本")  # the first of two counts
    expected = np.array([[0.5, -1], [2, 0.3], [1, 2], [0, 0.25]], np.float32)
    assert np.array_equal(vectors.vectors, expected)
    assert read_word_vectors(path, most=2).words == ("the", "of")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no vectors"),
        ("3 2\n", "has no vectors"),
        ("the\n", "line 1: expected a word and some finite numbers"),
        ("the 1 2\nof 1\n", "line 2: expected a word and 2 finite numbers"),
        ("the 1 2\nof 1 x\n", "line 2"),
        ("the 1 2\nof 1 nan\n", "line 2"),
        ("the 1 2\n 1 2\n", "line 2"),
    ],
)
def test_malformed(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    with pytest.raises(ElmoxError, match=message) as caught:
        read_word_vectors(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
