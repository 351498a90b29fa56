"""Sense-tagged text: types that the readers of such corpora share.

Senses are WordNet's and are named by its sense keys, such as `play%1:04:00::`: the lemma, then the
kind of synset (1 noun, 2 verb, 3 adjective, 4 adverb, 5 adjective satellite), lexicographer file
and id, and for satellites the head of their cluster.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from elmox.errors import ElmoxError

# A satellite is an adjective: both kinds of a lemma are numbered together.
_POS_OF_KIND = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
_KEY = re.compile(r"([^%\s]+)%([1-5]):\d\d:\d\d:[^:\s]*:(?:\d\d)?")


class LemmaPos(NamedTuple):
    """A dictionary entry: the word in lower case, `_` between its parts, and one of n v a r."""

    lemma: str
    pos: str

    def __str__(self) -> str:
        return f"{self.lemma} ({self.pos})"


@dataclass(frozen=True)
class SenseTag:
    """A word of a sentence, or several that are one entry, and its senses.

    Attributes:
        start: position of its first word in the sentence.
        stop: position after its last word.
        entry: its dictionary entry.
        keys: its senses, at least one; several if the annotators did not decide.
        id: its id in the corpus; empty if there is none.
    """

    start: int
    stop: int
    entry: LemmaPos
    keys: tuple[str, ...]
    id: str = ""


@dataclass(frozen=True)
class SenseSentence:
    """A sentence: all its words, and the tagged ones."""

    words: tuple[str, ...]
    tags: tuple[SenseTag, ...]


def entry_of(key: str) -> LemmaPos:
    """Return the dictionary entry of a sense key."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise ElmoxError(f"{key!r} is not a WordNet sense key: expected one such as play%1:04:00::")
    return LemmaPos(match[1], _POS_OF_KIND[match[2]])


def split_unit(unit: str) -> list[str]:
    """Split a unit that a corpus joins by `_` or spaces: `took_place`, `change ringing`."""
    return unit.replace("_", " ").split()
