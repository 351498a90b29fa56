"""Nearest neighbors of a word in its sentence (Peters et al. 2018, Table 4).

A word vector without context mixes all senses of a word: the neighbors of "play" are players, games
and theaters at once. The neighbors of the biLM's vector of "play" in one sentence are words with a
similar use in other sentences. Both kinds are searched in one pass over a text of any size: only
the nearest so far and the vectors of one chunk are in memory.

Similarity is the cosine, in float32.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.text.batches import in_chunks

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**29}  # of float32 vectors held at a time

Sentence: TypeAlias = tuple[str, ...]
Occurrence: TypeAlias = tuple[Sentence, int]  # a sentence and the position of a word in it
T = TypeVar("T")


@dataclass(frozen=True)
class Neighbor:
    """A word in a sentence of the text.

    Attributes:
        similarity: cosine.
        sentence: the sentence.
        position: index of the word in it.
    """

    similarity: float
    sentence: Sentence
    position: int

    @property
    def word(self) -> str:
        """The word at the position."""
        return self.sentence[self.position]


@dataclass(frozen=True)
class WordNeighbor:
    """A word of the text without context.

    Attributes:
        similarity: cosine.
        word: the word.
    """

    similarity: float
    word: str


@dataclass(frozen=True)
class Neighbors:
    """The neighbors of a word, nearest first.

    Attributes:
        in_context: words in sentences.
        context_free: words without context.
        num_sentences, num_tokens: size of the searched text.
    """

    in_context: list[Neighbor]
    context_free: list[WordNeighbor]
    num_sentences: int
    num_tokens: int


def find_word(sentence: Sequence[str], word: str, occurrence: int = 1) -> int:
    """Return the position of a word in a tokenized sentence; `occurrence` counts from 1."""
    positions = [position for position, token in enumerate(sentence) if token == word]
    if not positions:
        raise ElmoxError(
            f"{word!r} is not a token of the sentence: choose one of its tokens: "
            + " ".join(sentence)
        )
    if not 1 <= occurrence <= len(positions):
        raise ArgumentError(
            "{} of {}: expected 1 to {}, the number of times it is in the sentence",
            Argument("occurrence", occurrence),
            repr(word),
            len(positions),
        )
    return positions[occurrence - 1]


def find_neighbors(
    elmo: Elmo,
    sentence: Sequence[str],
    position: int,
    text: Iterable[Sequence[str]],
    *,
    layers: Layers = "top",
    k: int = 5,
    same_word: bool = False,
    show_progress_bar: bool = False,
) -> Neighbors:
    """Search a text for the nearest neighbors of a word of a sentence.

    Args:
        elmo: the model.
        sentence: a tokenized sentence.
        position: of the word, counted from 0.
        text: tokenized sentences, read once. If `sentence` is among them, it is skipped.
        layers: the layer that is compared: "top", "average", "mix", "mix:NAME" or an index.
        k: maximum number of neighbors of each kind.
        same_word: restrict the neighbors in context to the same word, in upper or lower case.
            Sentences without it are then not embedded, which makes the search much faster.
        show_progress_bar: show a bar on stderr.

    Returns:
        Neighbors in context, at most one per sentence (repeated sentences count once); and
        neighbors of the word's context-free vector, layer 0, among the other distinct words.
    """
    require_at_least(1, "k", k)
    search = _Search(elmo, tuple(sentence), position, layers, k, same_word)
    num_sentences = num_tokens = 0
    with tqdm(unit="tok", unit_scale=True, disable=not show_progress_bar) as progress:
        sentences: Iterator[Sentence] = (tuple(tokens) for tokens in text if len(tokens))
        for chunk in in_chunks(sentences, len, search.chunk_tokens):
            search.add(chunk)
            size = sum(map(len, chunk))
            progress.update(size)
            num_tokens += size
            num_sentences += len(chunk)
    if not num_tokens:
        raise ElmoxError("the text has no words: nothing to search")
    return Neighbors(
        [Neighbor(similarity, *occurrence) for similarity, occurrence in search.occurrences.best()],
        [WordNeighbor(similarity, word) for similarity, word in search.words.best()],
        num_sentences,
        num_tokens,
    )


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def _cosines(vectors: Tensor, unit: Tensor) -> NDArray[np.float32]:
    """Return the cosine of each of (N, D) with a unit vector (D,)."""
    cosines: NDArray[np.float32] = (_unit(vectors) @ unit).cpu().numpy()
    return cosines


class _Nearest(Generic[T]):
    """The k nearest of all items that were added."""

    def __init__(self, k: int, key: Callable[[T], Hashable]) -> None:
        """Start without items; of items with the same `key`, only the nearest is kept."""
        self._k = k
        self._key = key
        self._kept: dict[Hashable, tuple[float, T]] = {}

    def add(self, items: Sequence[T], similarities: NDArray[np.float32]) -> None:
        """Add items; among equally near ones, those that were added first stay."""
        for index in np.argsort(-similarities, kind="stable").tolist():
            similarity, key = float(similarities[index]), self._key(items[index])
            if len(self._kept) == self._k:
                # Dicts keep the order of insertion: this is the last of the farthest.
                farthest = min(reversed(self._kept), key=lambda kept: self._kept[kept][0])
                if similarity <= self._kept[farthest][0]:
                    return
                if key not in self._kept:
                    del self._kept[farthest]
            self._kept.setdefault(key, (similarity, items[index]))

    def best(self) -> list[tuple[float, T]]:
        """Return similarities and items, nearest first."""
        return sorted(self._kept.values(), key=lambda kept: -kept[0])


class _Search:
    """The word whose neighbors are searched, and the nearest so far.

    Attributes:
        chunk_tokens: maximum number of tokens of a chunk.
        occurrences: the nearest words in sentences.
        words: the nearest words without context.
    """

    def __init__(
        self, elmo: Elmo, sentence: Sentence, position: int, layers: Layers, k: int, same_word: bool
    ) -> None:
        if not choose_layers(layers, elmo.num_layers, elmo.mixes).single:
            raise ArgumentError(
                "{}: expected one vector per word, such as top, average or 1",
                Argument("layers", layers),
            )
        chunk_bytes = CHUNK_BYTES.get(elmo.device.type, CHUNK_BYTES["cpu"])
        self.chunk_tokens = max(1, chunk_bytes // (4 * elmo.dim))
        self.occurrences = _Nearest[Occurrence](k, key=lambda occurrence: occurrence[0])
        self.words = _Nearest[str](k, key=lambda word: word)
        self._elmo = elmo
        self._layers = layers
        self._same_word = same_word
        self._sentence, self._word = sentence, sentence[position]
        self._vector = _unit(self._vectors([sentence])[position])  # (D,)
        self._word_vector = _unit(elmo.reader.token_vectors([self._word])[0])  # (P,)

    def add(self, chunk: Sequence[Sentence]) -> None:
        """Add the nearest words of some sentences."""
        # Sorted, because the order of a set differs between runs.
        words = sorted({word for sentence in chunk for word in sentence} - {self._word})
        if words:
            vectors = self._elmo.reader.token_vectors(words)
            self.words.add(words, _cosines(vectors, self._word_vector))
        sentences = [sentence for sentence in dict.fromkeys(chunk) if sentence != self._sentence]
        if self._same_word:
            sentences = [sentence for sentence in sentences if self._is_word(sentence).any()]
        if sentences:
            self._add_occurrences(sentences)

    def _add_occurrences(self, sentences: Sequence[Sentence]) -> None:
        """Add the nearest word of each sentence."""
        cosines = _cosines(self._vectors(sentences), self._vector)
        if self._same_word:
            same = np.concatenate([self._is_word(sentence) for sentence in sentences])
            cosines[~same] = -np.inf
        ends = np.cumsum([len(sentence) for sentence in sentences])
        by_sentence = np.split(cosines, ends[:-1])
        positions = [int(part.argmax()) for part in by_sentence]
        best = np.array([part[i] for part, i in zip(by_sentence, positions, strict=True)])
        self.occurrences.add(list(zip(sentences, positions, strict=True)), best)

    def _vectors(self, sentences: Sequence[Sentence]) -> Tensor:
        """Return the vectors of all tokens of some sentences, (tokens, D)."""
        vectors = self._elmo.encode_tokens(sentences, layers=self._layers, convert_to_tensor=True)
        return torch.cat([tokens.to(self._elmo.device) for tokens in vectors])

    def _is_word(self, sentence: Sentence) -> NDArray[np.bool_]:
        """Return (T,) which words of a sentence are the searched one, in upper or lower case."""
        folded = self._word.casefold()
        return np.fromiter((word.casefold() == folded for word in sentence), bool, len(sentence))
