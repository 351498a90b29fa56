"""Documents whose entities are looked for: their parts, the links in them, who speaks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from elmox.errors import ElmoxError
from elmox.tasks.data.conll2012 import AnnotatedDocument, Mention
from elmox.tasks.data.texts import Sentence

Clusters = tuple[tuple[Mention, ...], ...]  # entities, each all its mentions


@dataclass(frozen=True)
class Document:
    """A tokenized document.

    Attributes:
        sentences: none of them empty.
        clusters: its entities; mentions by their places in the document.
        speakers: who says each word; nothing where nobody knows.
    """

    sentences: tuple[tuple[str, ...], ...]
    clusters: Clusters = ()
    speakers: tuple[str, ...] = ()

    @property
    def num_links(self) -> int:
        """Mentions that have one of the same entity before them."""
        return sum(len(cluster) - 1 for cluster in self.clusters)

    def part(self, start: int, stop: int) -> "Document":
        """Some of its sentences, with the mentions that are in them."""
        first, end = (sum(map(len, self.sentences[:place])) for place in (start, stop))
        clusters = (
            tuple(
                Mention(own.start - first, own.stop - first)
                for own in cluster
                if first <= own.start and own.stop <= end
            )
            for cluster in self.clusters
        )
        there = tuple(sorted(cluster for cluster in clusters if cluster))
        return Document(self.sentences[start:stop], there, self.speakers[first:end])

    def parts(self, most: int) -> list["Document"]:
        """As few parts of equal length as there must be for each to have so many sentences."""
        count = -(-len(self.sentences) // most)
        bounds = [len(self.sentences) * place // count for place in range(count + 1)]
        return [self.part(start, stop) for start, stop in pairwise(bounds)]


def annotated(own: AnnotatedDocument) -> Document:
    """A document of a CoNLL-2012 file."""
    speakers = tuple(name for sentence in own.sentences for name in sentence.speakers)
    return Document(tuple(sentence.words for sentence in own.sentences), own.clusters, speakers)


def untold(sentences: Sequence[Sentence], speakers: Any = None) -> Document:
    """A document whose entities nobody knows.

    Args:
        sentences: its own; empty ones are left out.
        speakers: for each of the sentences, empty ones too, the name of who says it, or a list of
            names, one for each word. None where nobody knows. Anything else is an `ElmoxError`.
    """
    words = tuple(tuple(own) for own in sentences if own)
    return Document(words, (), () if speakers is None else _names(speakers, sentences))


def _names(speakers: Any, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Who says each word."""
    if not isinstance(speakers, list | tuple):
        raise ElmoxError(f"speakers is {speakers!r:.60}, expected a list, one for each sentence")
    if len(speakers) != len(sentences):
        raise ElmoxError(
            f"speakers has {len(speakers)} entries, expected one for each sentence: the document "
            f"has {len(sentences)}"
        )
    found: list[str] = []
    for number, (own, words) in enumerate(zip(speakers, sentences, strict=True)):
        names = [own] * len(words) if isinstance(own, str) else own
        where = f"the speaker of sentence {number} (counted from 0)"
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ElmoxError(
                f"{where} is {own!r:.60}, expected a name or a list of names, one for each word "
                "(- where it is not known)"
            )
        if len(names) != len(words):
            raise ElmoxError(
                f"{where} is a list of {len(names)}, expected a name for each word: the sentence "
                f"has {len(words)}"
            )
        found += names
    return tuple(found)
