"""The word of a sentence whose sense is searched: `He plays the **bass** in a band.`"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from elmox.errors import Argument, ArgumentError, ElmoxError, shortened
from elmox.probes.neighbors import find_word
from elmox.text.inputs import Text, checked_tokens
from elmox.text.offsets import token_offsets

MARK = "**"

_MARKED = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_EXAMPLE = "'He plays the **bass** in a band.'"


@dataclass(frozen=True)
class Query:
    """A word in a sentence.

    Attributes:
        tokens: the tokens of the sentence.
        position: index of the word among them.
        text: the sentence without marks.
    """

    tokens: list[str]
    position: int
    text: str

    @property
    def token(self) -> str:
        """The word."""
        return self.tokens[self.position]


def parse_query(
    sentence: Text,
    tokenize: Callable[[str], list[str]],
    word: str | None = None,
    position: int | None = None,
) -> Query:
    """Find the word that a query is about.

    Args:
        sentence: a sentence in which `**` is on both sides of the word, or one without marks; or a
            list of tokens.
        tokenize: splits a sentence into tokens.
        word: the word, if it is not marked.
        position: its index among the tokens, if it is not marked.
    """
    if isinstance(sentence, str):
        marked = list(_MARKED.finditer(sentence))
        if marked and word is None and position is None:
            return _marked(sentence, marked, tokenize)
        tokens, text = tokenize(sentence), sentence
    else:
        tokens = list(checked_tokens(0, sentence))
        text = " ".join(tokens)
    if not tokens:
        raise ElmoxError(f"the sentence has no words: expected one such as {_EXAMPLE}")
    if position is not None:
        if not 0 <= position < len(tokens):
            raise ArgumentError(
                "{}: the sentence has {} tokens, expected 0 to {}",
                Argument("position", position),
                len(tokens),
                len(tokens) - 1,
            )
        return Query(tokens, position, text)
    if word is not None:
        return Query(tokens, find_word(tokens, word), text)
    if len(tokens) > 1:
        raise ArgumentError(
            "{} has no marked word: put ** on both sides of it, as in {}, or give {}",
            shortened(text, 60),
            _EXAMPLE,
            Argument("word"),
        )
    return Query(tokens, 0, text)


def _marked(
    sentence: str, marked: list[re.Match[str]], tokenize: Callable[[str], list[str]]
) -> Query:
    """Return the query of a sentence with marks."""
    if len(marked) > 1:
        raise ElmoxError(f"{len(marked)} words are marked with {MARK}: expected one")
    start, end = marked[0].start(), marked[0].end() - 2 * len(MARK)
    text = sentence[:start] + marked[0][1] + sentence[marked[0].end() :]
    tokens = tokenize(text)
    offsets = token_offsets(text, tokens)
    positions = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    if len(positions) != 1:
        names = " ".join(tokens[i] for i in positions)
        raise ElmoxError(
            f"{marked[0][0]!r} is {len(positions)} tokens ({names}): expected a single one"
        )
    return Query(tokens, positions[0], text)
