"""Sense-tagged text: what the readers of such corpora have in common.

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
        start: its first word's place in the sentence.
        stop: the place after its last word.
        entry: what it is a form of.
        keys: its senses, at least one; annotators could not always decide.
        id: as the corpus names it; empty where it does not.
    """

    start: int
    stop: int
    entry: LemmaPos
    keys: tuple[str, ...]
    id: str = ""


@dataclass(frozen=True)
class SenseSentence:
    """A sentence: its words, every one by itself, and those that have been tagged."""

    words: tuple[str, ...]
    tags: tuple[SenseTag, ...]


def entry_of(key: str) -> LemmaPos:
    """The dictionary entry that a sense key belongs to."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise ElmoxError(f"{key!r} is not a WordNet sense key, which looks like play%1:04:00::")
    return LemmaPos(match[1], _POS_OF_KIND[match[2]])


def split_unit(unit: str) -> list[str]:
    """The words of what a corpus joins by `_` or spaces: `took_place`, `change ringing`."""
    return unit.replace("_", " ").split()
