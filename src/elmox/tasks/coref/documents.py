"""Documents for coreference: their parts, the links between mentions, the speakers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from elmox.errors import ElmoxError
from elmox.tasks.data.conll2012 import AnnotatedDocument, Mention
from elmox.tasks.data.texts import Sentence

Clusters: TypeAlias = tuple[tuple[Mention, ...], ...]  # entities, each with all its mentions


@dataclass(frozen=True)
class Document:
    """A tokenized document.

    Attributes:
        sentences: none of them empty.
        clusters: its entities; mentions by word indices in the document.
        speakers: the speaker of each word; empty if unknown.
    """

    sentences: tuple[tuple[str, ...], ...]
    clusters: Clusters = ()
    speakers: tuple[str, ...] = ()

    @property
    def num_links(self) -> int:
        """Number of mentions that follow another mention of their entity."""
        return sum(len(cluster) - 1 for cluster in self.clusters)

    def part(self, start: int, stop: int) -> "Document":
        """Return the sentences from `start` to before `stop`, with the mentions in them."""
        first, end = (sum(map(len, self.sentences[:index])) for index in (start, stop))
        clusters = (
            tuple(
                Mention(mention.start - first, mention.stop - first)
                for mention in cluster
                if first <= mention.start and mention.stop <= end
            )
            for cluster in self.clusters
        )
        kept = tuple(sorted(cluster for cluster in clusters if cluster))
        return Document(self.sentences[start:stop], kept, self.speakers[first:end])

    def parts(self, max_sentences: int) -> list["Document"]:
        """Split into the fewest equal parts of at most `max_sentences` sentences."""
        count = -(-len(self.sentences) // max_sentences)
        bounds = [len(self.sentences) * index // count for index in range(count + 1)]
        return [self.part(start, stop) for start, stop in pairwise(bounds)]


def labeled_document(document: AnnotatedDocument) -> Document:
    """Return a document of a CoNLL-2012 file."""
    speakers = tuple(name for sentence in document.sentences for name in sentence.speakers)
    sentences = tuple(sentence.words for sentence in document.sentences)
    return Document(sentences, document.clusters, speakers)


def unlabeled_document(sentences: Sequence[Sentence], speakers: Any = None) -> Document:
    """Return a document without entities.

    Args:
        sentences: its sentences; empty ones are left out.
        speakers: for each of the sentences, empty ones too, the name of its speaker, or a list with
            a name for each word. None if unknown. Anything else is an `ElmoxError`.
    """
    words = tuple(tuple(sentence) for sentence in sentences if sentence)
    return Document(words, (), () if speakers is None else _names(speakers, sentences))


def _names(speakers: Any, sentences: Sequence[Sentence]) -> tuple[str, ...]:
    """Return the speaker of each word."""
    if not isinstance(speakers, list | tuple):
        raise ElmoxError(f"speakers is {speakers!r:.60}, expected a list, one for each sentence")
    if len(speakers) != len(sentences):
        raise ElmoxError(
            f"speakers has {len(speakers)} entries, expected one for each sentence: the document "
            f"has {len(sentences)}"
        )
    by_word: list[str] = []
    for index, (speaker, words) in enumerate(zip(speakers, sentences, strict=True)):
        names = [speaker] * len(words) if isinstance(speaker, str) else speaker
        where = f"the speaker of sentence {index} (counted from 0)"
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ElmoxError(
                f"{where} is {speaker!r:.60}, expected a name or a list of names, one for each "
                "word (- if unknown)"
            )
        if len(names) != len(words):
            raise ElmoxError(
                f"{where} is a list of {len(names)}, expected a name for each word: the sentence "
                f"has {len(words)}"
            )
        by_word += names
    return tuple(by_word)
