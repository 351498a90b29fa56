"""Sentences in every form that callers pass, and errors that name the row."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

from elmox.errors import ElmoxError
from elmox.text.inputs import checked_tokens, text_list, warn_if_tokens

SENTENCES = ["Live in the present.", "I will buy you a present."]


class Column:
    """A column of a table as in pandas: iterable, but not a sequence."""

    def __init__(self, values: list[str]) -> None:
        self._values = values

    def __iter__(self) -> Any:
        return iter(self._values)


class Table:
    """A DataFrame: iterating over it yields the names of its columns."""

    columns = ("text", "label")

    def __iter__(self) -> Any:
        return iter(self.columns)


@pytest.mark.parametrize(
    "sentences",
    [
        SENTENCES,
        tuple(SENTENCES),
        (s for s in SENTENCES),
        np.array(SENTENCES),
        np.array(SENTENCES, dtype=object),
        Column(SENTENCES),
        dict.fromkeys(SENTENCES).keys(),
    ],
)
def test_lists_generators_arrays_and_columns(sentences: Any) -> None:
    assert text_list(sentences) == SENTENCES


def test_one_string_is_one_sentence() -> None:
    assert text_list("Live in the present.") == ["Live in the present."]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (None, "sentences is None (NoneType)"),
        (3.5, "sentences is 3.5 (float)"),
        (b"bytes", "sentences is b'bytes' (bytes)"),
        ({"text": "a"}, "sentences is a mapping with the keys 'text'"),
        (Table(), "sentences is a table with the columns 'text', 'label'"),
        (np.array([["a", "b"]]), "sentences is an array of shape (1, 2)"),
    ],
)
def test_other_types(sentences: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=re.escape(message)):
        text_list(sentences)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (None, "sentence 7 is None (NoneType)"),
        (float("nan"), "sentence 7 is nan (float)"),
        ({"tokens": []}, "sentence 7 is {'tokens': []} (dict)"),
        (["a", None], "sentence 7 has the token None (NoneType)"),
        (["a", 1], "sentence 7 has the token 1 (int)"),
        (b"ab", "sentence 7 is b'ab' (bytes)"),
    ],
)
def test_a_bad_sentence_is_named_by_its_row(sentence: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=re.escape(message)):
        checked_tokens(7, sentence)


def test_tokens_may_be_an_array() -> None:
    assert list(checked_tokens(0, np.array(["a", "b"]))) == ["a", "b"]  # type: ignore[arg-type]


def test_a_flat_list_of_words_warns() -> None:
    with pytest.warns(UserWarning, match="is read as 2 sentences of one word each"):
        warn_if_tokens(["I", "will"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_tokens(["Yes"])
        warn_if_tokens(["I will", "buy"])
        warn_if_tokens([["I", "will"], ["buy"]])


def test_a_wrong_token_is_expected_to_be_a_string() -> None:
    with pytest.raises(ElmoxError, match=r"sentence 4 has the token 5 \(int\): expected a string$"):
        checked_tokens(4, ["a", 5])  # type: ignore[list-item]


def test_the_warning_shows_words_of_an_array_as_strings() -> None:
    with pytest.warns(UserWarning, match=r"^\['I', 'will'\] is read as 2 sentences"):
        warn_if_tokens(list(np.array(["I", "will"])))
