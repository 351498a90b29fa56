"""Nearest neighbors of a word in its sentence (the paper's Table 4).

A word vector without context has all senses of a word in it: the neighbors of "play" are players,
games and theatres at once. The biLM's vector of one "play" in one sentence has as its neighbors
words of other sentences that are used alike. Both kinds are looked for in one pass over a text of
any size: what is held are the nearest so far and the vectors of one chunk.

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
from elmox.errors import ElmoxError
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.text.batches import in_chunks

CHUNK_BYTES = {"cpu": 2**25, "cuda": 2**29}  # of float32 vectors held at a time

Sentence: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Sentence, int]  # a word in a sentence
T = TypeVar("T")


@dataclass(frozen=True)
class Neighbor:
    """A word in a sentence of the text."""

    similarity: float
    sentence: Sentence
    position: int

    @property
    def word(self) -> str:
        """The word at the position."""
        return self.sentence[self.position]


@dataclass(frozen=True)
class WordNeighbor:
    """A word of the text, by itself."""

    similarity: float
    word: str


@dataclass(frozen=True)
class Neighbors:
    """What is nearest to a word, nearest first, and how much text was looked at."""

    in_context: list[Neighbor]
    context_free: list[WordNeighbor]
    num_sentences: int
    num_tokens: int


def find_word(sentence: Sequence[str], word: str, occurrence: int = 1) -> int:
    """The position of a word in a tokenized sentence; of its second occurrence for 2, and so on."""
    places = [place for place, token in enumerate(sentence) if token == word]
    if not places:
        raise ElmoxError(
            f"{word!r} is not a token of the sentence; its tokens are: {' '.join(sentence)}"
        )
    if not 1 <= occurrence <= len(places):
        raise ElmoxError(
            f"occurrence {occurrence} of {word!r}: expected 1 to {len(places)}, as often as the "
            "sentence has it"
        )
    return places[occurrence - 1]


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
    """Search a text for what is nearest to a word of a sentence.

    Args:
        elmo: the model.
        sentence: a tokenized sentence.
        position: of the word, counted from 0.
        text: tokenized sentences, read once. Where `sentence` itself is among them, it is left out.
        layers: whose vectors are compared: "top", "average", "mix", "mix:NAME" or a number.
        k: how many neighbors of each kind, at most.
        same_word: only the same word, in any case, can be a neighbor in context. Sentences without
            it are then not embedded, which makes the search far quicker.
        show_progress_bar: on stderr.

    Returns:
        Neighbors in context, each from a sentence of its own (its nearest word; a sentence that
        the text repeats counts once); and neighbors of the word's own vector, layer 0, among the
        other distinct words of the text.
    """
    if k < 1:
        raise ElmoxError(f"k={k}: expected at least 1")
    search = _Search(elmo, tuple(sentence), position, layers, k, same_word)
    num_sentences = num_tokens = 0
    with tqdm(unit="tok", unit_scale=True, disable=not show_progress_bar) as progress:
        sentences: Iterator[Sentence] = (tuple(own) for own in text if len(own))
        for chunk in in_chunks(sentences, len, search.chunk_tokens):
            search.look_at(chunk)
            size = sum(map(len, chunk))
            progress.update(size)
            num_tokens += size
            num_sentences += len(chunk)
    if not num_tokens:
        raise ElmoxError("the text has no words: nothing to search")
    return Neighbors(
        [Neighbor(similarity, *place) for similarity, place in search.places.best()],
        [WordNeighbor(similarity, word) for similarity, word in search.words.best()],
        num_sentences,
        num_tokens,
    )


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)


def _cosines(vectors: Tensor, unit: Tensor) -> NDArray[np.float32]:
    """Cosine of each of (N, D) with a unit vector (D,)."""
    cosines: NDArray[np.float32] = (_unit(vectors) @ unit).cpu().numpy()
    return cosines


class _Nearest(Generic[T]):
    """The k nearest of all that was offered."""

    def __init__(self, k: int, key: Callable[[T], Hashable]) -> None:
        """`key` says which things are the same: of those, only one is kept."""
        self._k = k
        self._key = key
        self._kept: dict[Hashable, tuple[float, T]] = {}

    def offer(self, things: Sequence[T], similarities: NDArray[np.float32]) -> None:
        """Look at some more; among equally near ones those that came first stay."""
        for place in np.argsort(-similarities, kind="stable").tolist():
            similarity, key = float(similarities[place]), self._key(things[place])
            if len(self._kept) == self._k:
                # Dicts keep the order in which things came: the last of the farthest.
                farthest = min(reversed(self._kept), key=lambda own: self._kept[own][0])
                if similarity <= self._kept[farthest][0]:
                    return
                if key not in self._kept:
                    del self._kept[farthest]
            self._kept.setdefault(key, (similarity, things[place]))

    def best(self) -> list[tuple[float, T]]:
        """Similarity and thing, nearest first."""
        return sorted(self._kept.values(), key=lambda kept: -kept[0])


class _Search:
    """What is looked for, and the nearest so far.

    Attributes:
        chunk_tokens: most tokens to look at at a time.
        places: the nearest words in sentences.
        words: the nearest words by themselves.
    """

    def __init__(
        self, elmo: Elmo, sentence: Sentence, position: int, layers: Layers, k: int, same_word: bool
    ) -> None:
        if not choose_layers(layers, elmo.num_layers, elmo.mixes).single:
            raise ElmoxError(f"layers={layers!r}: expected one, such as 'top', 'average' or 1")
        room = CHUNK_BYTES.get(elmo.device.type, CHUNK_BYTES["cpu"])
        self.chunk_tokens = max(1, room // (4 * elmo.dim))
        self.places = _Nearest[Place](k, key=lambda place: place[0])
        self.words = _Nearest[str](k, key=lambda word: word)
        self._elmo = elmo
        self._layers = layers
        self._same_word = same_word
        self._sentence, self._word = sentence, sentence[position]
        self._vector = _unit(self._vectors([sentence])[position])  # (D,)
        self._word_vector = _unit(elmo.reader.token_vectors([self._word])[0])  # (P,)

    def look_at(self, chunk: Sequence[Sentence]) -> None:
        """Take the nearest of some more sentences."""
        # Sorted, because the order of a set differs from run to run.
        words = sorted({word for sentence in chunk for word in sentence} - {self._word})
        if words:
            vectors = self._elmo.reader.token_vectors(words)
            self.words.offer(words, _cosines(vectors, self._word_vector))
        sentences = [sentence for sentence in dict.fromkeys(chunk) if sentence != self._sentence]
        if self._same_word:
            sentences = [sentence for sentence in sentences if self._is_word(sentence).any()]
        if sentences:
            self._look_at_places(sentences)

    def _look_at_places(self, sentences: Sequence[Sentence]) -> None:
        """Offer the nearest word of each sentence."""
        cosines = _cosines(self._vectors(sentences), self._vector)
        if self._same_word:
            same = np.concatenate([self._is_word(sentence) for sentence in sentences])
            cosines[~same] = -np.inf
        ends = np.cumsum([len(sentence) for sentence in sentences])
        own = np.split(cosines, ends[:-1])
        positions = [int(part.argmax()) for part in own]
        best = np.array([part[at] for part, at in zip(own, positions, strict=True)])
        self.places.offer(list(zip(sentences, positions, strict=True)), best)

    def _vectors(self, sentences: Sequence[Sentence]) -> Tensor:
        """All tokens of some sentences, one after the other, (tokens, D)."""
        found = self._elmo.encode_tokens(sentences, layers=self._layers, convert_to_tensor=True)
        return torch.cat([own.to(self._elmo.device) for own in found])

    def _is_word(self, sentence: Sentence) -> NDArray[np.bool_]:
        """(T,) which words of a sentence are the one in question, in any case."""
        wanted = self._word.casefold()
        return np.fromiter((word.casefold() == wanted for word in sentence), bool, len(sentence))
