"""The sentences of a data set, ready to be put into batches.

Every distinct word is spelled and looked up once; a batch is made of rows of those tables.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.config import Strict
from elmox.io.transfer import to_device
from elmox.tasks.fit.layer_batches import LayerBatches, StoredLayers
from elmox.text.chars import Spelling, spell_bytes

Sentence = Sequence[str]

MAX_CHARACTERS = 32  # bytes of a word that the task's own character CNN sees, marks counted
UNKNOWN = 0  # the id of words without a vector; others are counted from 1


@dataclass(frozen=True)
class TextBatch:
    """Some sentences side by side; N sentences, T words, U distinct words."""

    sentences: list[Sentence]  # as they are, for a biLM that is learned too
    mask: Tensor  # (N, T) true where there is a word
    lengths: Tensor  # (N,) words of each sentence, on the CPU
    words: Tensor  # (N, T) places in the tables below, 0 at padding
    learned: Tensor  # (U,) ids of the words' learned vectors
    static: Tensor  # (U,) and of their static ones
    spelling: Tensor  # (U, C)
    layers: Tensor | None  # (L+1, N, T, D) float32, zero at padding


@dataclass(frozen=True)
class Words(Strict):
    """The words that a model has vectors for.

    Attributes:
        learned: with the task; in small letters.
        static: from a file, as they are written there.
    """

    learned: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    def learned_id(self, word: str) -> int:
        """The id of a word's learned vector."""
        return self._learned.get(word.lower(), UNKNOWN)

    def static_id(self, word: str) -> int:
        """The id of its static vector, or of that of the word in small letters."""
        return self._static.get(word) or self._static.get(word.lower(), UNKNOWN)

    @cached_property
    def _learned(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.learned, start=1)}

    @cached_property
    def _static(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.static, start=1)}


def frequent_words(sentences: Iterable[Sentence], min_count: int) -> tuple[str, ...]:
    """Words, in small letters, that occur often enough; the most frequent first."""
    counts = Counter(word.lower() for sentence in sentences for word in sentence)
    frequent = (item for item in counts.items() if item[1] >= min_count)
    return tuple(word for word, _ in sorted(frequent, key=lambda item: (-item[1], item[0])))


class Texts:
    """Sentences, and what was computed of their words.

    Attributes:
        lengths: (S,) words of each sentence.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        words: Words,
        layers: StoredLayers | None,
        used: NDArray[np.int64] | None = None,
    ) -> None:
        """Look up and spell the words.

        Args:
            sentences: all of them.
            words: that the model has vectors for.
            layers: ELMo's, of these sentences.
            used: places of the sentences that may be asked for; None for all.
        """
        self._sentences = sentences
        places: dict[str, int] = {}
        self._index = [
            np.array([places.setdefault(word, len(places)) for word in sentence], np.int64)
            for sentence in sentences
        ]
        if not places:  # padding is looked up as the first word, so there must be one
            places[""] = 0
        self.lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        self._spelling: Spelling = spell_bytes(list(places), MAX_CHARACTERS)
        self._learned = np.array([words.learned_id(word) for word in places], np.int64)
        self._static = np.array([words.static_id(word) for word in places], np.int64)
        self._layers = None if layers is None else LayerBatches(layers, self.lengths, used)

    def batch(self, chosen: Sequence[int], device: torch.device) -> TextBatch:
        """The chosen sentences, padded to the longest; at least one word wide."""
        lengths = self.lengths[list(chosen)]
        steps = np.arange(max(1, int(lengths.max(initial=0))))
        mask = steps < lengths[:, None]
        words = np.zeros(mask.shape, np.int64)
        words[mask] = np.concatenate([self._index[i] for i in chosen] or [np.empty(0, np.int64)])
        occurs = np.zeros(len(self._learned), np.bool_)
        occurs[words] = True
        distinct, places = occurs.nonzero()[0], np.cumsum(occurs)[words] - 1

        def on_device(array: NDArray[np.generic]) -> Tensor:
            return to_device(array, device)

        return TextBatch(
            sentences=[self._sentences[i] for i in chosen],
            mask=on_device(mask),
            lengths=torch.from_numpy(lengths),
            words=on_device(places.reshape(mask.shape)),
            learned=on_device(self._learned[distinct]),
            static=on_device(self._static[distinct]),
            spelling=on_device(self._spelling.ids[distinct]),
            layers=None if self._layers is None else self._layers.batch(chosen, mask, device),
        )
