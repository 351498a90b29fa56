"""An LRU cache of token vectors: the encoder runs once per distinct word, also across calls.

The vectors lie in one table on the model's device, so that a batch of known words is one gather.
The cache is invisible: it changes no result, and forgets everything when the weights change.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor


class WordCache:
    """Vectors of the most recently used words. Safe to share between threads."""

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Args:
        encode: distinct words -> (U, P), without gradients.
        capacity: most words kept; 0 turns the cache off.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: OrderedDict[str, int] = OrderedDict()  # least recently used first
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
            missing = [word for word in words if word not in self._slots]
            if missing:
                self._insert(missing, self._encode(missing), keep=set(words))
            slots = [self._slots[word] for word in words]
            for word in words:
                self._slots.move_to_end(word)
            assert self._table is not None
            return self._table[torch.tensor(slots, device=self._table.device)]

    def clear(self) -> None:
        """Forget every word."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._slots.clear()
        self._table = None

    def _insert(self, words: Sequence[str], vectors: Tensor, keep: set[str]) -> None:
        for word in keep:  # a word of this batch must not make room for another
            if word in self._slots:
                self._slots.move_to_end(word)
        slots = []
        for word in words:
            if len(self._slots) < self.capacity:
                slot = len(self._slots)
            else:
                _, slot = self._slots.popitem(last=False)
            self._slots[word] = slot
            slots.append(slot)
        if self._table is None:  # zeros cost no memory before they are written to
            self._table = vectors.new_zeros(self.capacity, vectors.shape[1])
        self._table[torch.tensor(slots, device=vectors.device)] = vectors
