"""The sentences of a data set, ready to be put into batches.

Every distinct word is spelled and looked up once; a batch is made of rows of those tables.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.text.chars import Spelling, spell_bytes

Sentence = Sequence[str]

MAX_CHARACTERS = 32  # bytes of a word that the task's own character CNN sees, marks counted
UNKNOWN = 0  # the id of words that the training text did not have


class StoredLayers(Protocol):
    """ELMo's layers of sentences, by their place."""

    def __getitem__(self, index: int) -> NDArray[np.floating]:
        """(L+1, T, D)."""
        ...


@dataclass(frozen=True)
class TextBatch:
    """Some sentences side by side; N sentences, T words, U distinct words."""

    mask: Tensor  # (N, T) true where there is a word
    words: Tensor  # (N, T) places in the tables below, 0 at padding
    ids: Tensor  # (U,) of each distinct word in the task's vocabulary
    spelling: Tensor  # (U, C)
    layers: Tensor | None  # (L+1, N, T, D) float32, zero at padding


def known_words(sentences: Iterable[Sentence], min_count: int) -> tuple[str, ...]:
    """Words in small letters that occur often enough; their id is their place plus one."""
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
        known: dict[str, int],
        layers: StoredLayers | None,
    ) -> None:
        """`known` gives the ids of words in small letters; `layers` those of these sentences."""
        places: dict[str, int] = {}
        self._index = [
            np.array([places.setdefault(word, len(places)) for word in sentence], np.int64)
            for sentence in sentences
        ]
        self.lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        self._spelling: Spelling = spell_bytes(list(places), MAX_CHARACTERS)
        self._ids = np.array([known.get(word.lower(), UNKNOWN) for word in places], np.int64)
        self._layers = layers

    def batch(self, chosen: Sequence[int], device: torch.device) -> TextBatch:
        """The chosen sentences, padded to the longest; at least one word wide."""
        lengths = self.lengths[list(chosen)]
        steps = np.arange(max(1, int(lengths.max(initial=0))))
        mask = steps < lengths[:, None]
        words = np.zeros(mask.shape, np.int64)
        words[mask] = np.concatenate([self._index[i] for i in chosen] or [np.empty(0, np.int64)])
        distinct, places = np.unique(words, return_inverse=True)
        layers = None
        if self._layers is not None:
            own = [torch.from_numpy(np.asarray(self._layers[i], np.float32)) for i in chosen]
            padded = torch.zeros(own[0].shape[0], len(own), len(steps), own[0].shape[2])
            for row, found in enumerate(own):
                padded[:, row, : found.shape[1]] = found
            layers = padded.to(device)
        return TextBatch(
            mask=torch.from_numpy(mask).to(device),
            words=torch.from_numpy(places.reshape(mask.shape)).to(device),
            ids=torch.from_numpy(self._ids[distinct]).to(device),
            spelling=torch.from_numpy(self._spelling.ids[distinct]).to(device),
            layers=layers,
        )
