"""An LRU cache of token vectors: the encoder runs once per distinct word, also across calls.

The vectors lie in one table on the model's device, so that a batch of known words is one gather.
When a slot was last used is a number in an array, so that a call's words are touched all at once.
The cache is invisible: it changes no result, and forgets everything when the weights change.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import repeat
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmox.model.transfer import to_device

_UNKNOWN = -1


class WordCache:
    """Vectors of the most recently used words. Safe to share between threads."""

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Args:
        encode: distinct words -> (U, P), without gradients.
        capacity: most words kept; 0 turns the cache off.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: dict[str, int] = {}
        self._words: list[str] = []  # of each slot
        self._used = np.zeros(capacity, np.int64)  # when each slot was last asked for
        self._time = 0
        self._table: Tensor | None = None
        self._version: Hashable = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_encode": self._encode, "capacity": self.capacity}

    def __setstate__(self, state: dict[str, Any]) -> None:  # copies and pickles start empty
        self.__init__(state["_encode"], state["capacity"])  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._slots)

    def vectors(self, words: Sequence[str], version: Hashable = None) -> Tensor:
        """Vectors of distinct words, (U, P); words not in the cache are encoded now.

        Args:
            words: distinct words.
            version: of the weights; what was cached under another version is forgotten.
        """
        if len(words) > self.capacity:  # they would push each other out
            return self._encode(words)
        with self._lock:
            if version != self._version:
                self._forget()
                self._version = version
            found = map(self._slots.get, words, repeat(_UNKNOWN))
            slots = np.fromiter(found, np.int64, len(words))
            missing = np.flatnonzero(slots == _UNKNOWN)
            self._time += 1
            self._used[slots[slots != _UNKNOWN]] = self._time
            if len(missing):
                slots[missing] = self._insert([words[place] for place in missing.tolist()])
            assert self._table is not None
            return self._table[to_device(slots, self._table.device)]

    def clear(self) -> None:
        """Forget every word."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._slots.clear()
        self._words.clear()
        self._table = None

    def _insert(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Encode new words and give them slots: free ones first, then the longest unused.

        The words of the present call, which are in use now, are the last that would make room.
        """
        vectors = self._encode(words)
        if self._table is None:  # zeros cost no memory before they are written to
            self._table = vectors.new_zeros(self.capacity, vectors.shape[1])
        taken = len(self._words)
        num_free = min(len(words), self.capacity - taken)
        num_freed = len(words) - num_free
        slots = np.arange(taken, taken + len(words))
        if num_freed:
            slots[num_free:] = np.argpartition(self._used[:taken], num_freed - 1)[:num_freed]
        self._table[to_device(slots, vectors.device)] = vectors
        for slot in slots[num_free:].tolist():
            del self._slots[self._words[slot]]
        self._words.extend(repeat("", num_free))
        for word, slot in zip(words, slots.tolist(), strict=True):
            self._slots[word] = slot
            self._words[slot] = word
        self._used[slots] = self._time
        return slots
