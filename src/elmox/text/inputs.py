"""Sentences as callers pass them: a string, a list, a generator, an array, a column of a table.

Anything else is an error with the number of the row, before anything is computed.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from elmox.errors import ElmoxError, shortened

Text: TypeAlias = str | Sequence[str]  # a raw sentence, or one that is tokenized already
Texts: TypeAlias = str | Iterable[Text]

_EXPECTED = "expected a string, a list of strings, or a list of lists of tokens"


def text_list(sentences: Texts) -> list[Text]:
    """Return the sentences as a list; a single string is one sentence.

    Raises:
        ElmoxError: for None, numbers, bytes, mappings, tables and arrays of several dimensions.
    """
    if isinstance(sentences, str):
        return [sentences]
    check_texts(sentences)
    return list(sentences)


def check_texts(sentences: Iterable[Text]) -> None:
    """Check what can be checked before the first sentence is read.

    Raises:
        ElmoxError: for None, numbers, bytes, mappings, tables and arrays of several dimensions.
    """
    if isinstance(sentences, Mapping):
        raise ElmoxError(f"sentences is a mapping with the keys {_keys(sentences)}: {_EXPECTED}")
    if hasattr(sentences, "columns"):  # a DataFrame of any library iterates over its columns' names
        raise ElmoxError(
            f"sentences is a table with the columns {_keys(sentences.columns)}: give one of its "
            "columns"
        )
    if isinstance(sentences, bytes | bytearray) or not isinstance(sentences, Iterable):
        raise ElmoxError(f"sentences is {described(sentences)}: {_EXPECTED}")
    if isinstance(sentences, np.ndarray) and sentences.ndim != 1:
        raise ElmoxError(
            f"sentences is an array of shape {sentences.shape}: expected one dimension"
        )


def checked_tokens(row: int, sentence: Sequence[str]) -> Sequence[str]:
    """Return a tokenized sentence after checking that it is a sequence of strings.

    Raises:
        ElmoxError: it is something else; the message names the row.
    """
    if isinstance(sentence, np.ndarray) and sentence.ndim == 1:
        sentence = sentence.tolist()
    if isinstance(sentence, Mapping | bytes | bytearray) or not isinstance(sentence, Sequence):
        raise ElmoxError(
            f"sentence {row} is {described(sentence)}: expected a string or a list of strings"
        )
    # Types first: a loop over tokens would take longer than a GPU takes to embed them.
    types = set(map(type, sentence))
    if types != {str} and not all(issubclass(kind, str) for kind in types):
        wrong = next(token for token in sentence if not isinstance(token, str))
        raise ElmoxError(f"sentence {row} has the token {described(wrong)}: expected a string")
    return sentence


def warn_if_tokens(sentences: Sequence[Text], stacklevel: int = 3) -> None:
    """Warn about a flat list of words, which is likely one sentence that is tokenized already."""
    if len(sentences) > 1 and all(isinstance(s, str) and len(s.split()) == 1 for s in sentences):
        words = ", ".join(repr(str(word)) for word in sentences[:3])
        warnings.warn(
            f"[{words}{', ...' if len(sentences) > 3 else ''}] is read as {len(sentences)} "
            "sentences of one word each; for one sentence of tokens, put the list into a list",
            stacklevel=stacklevel,
        )


def described(value: Any) -> str:
    """Return a value and its type for an error message."""
    return f"{shortened(value, 40)} ({type(value).__name__})"


def _keys(keys: Iterable[Any]) -> str:
    return ", ".join(repr(key) for key, _ in zip(keys, range(5), strict=False))
