"""An LRU cache of token vectors: the encoder runs once per distinct word, also across calls.

The vectors are rows of one table on the model's device, so that a batch of known words is one
gather. The time at which a slot was last used is a number in an array, so that all words of a call
are updated at once. The cache changes no result, and is emptied when the weights change.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import repeat
from sys import getsizeof
from threading import Lock
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmox.io.transfer import to_device

MAX_BYTES = 32 << 20  # of the words themselves: text without spaces has words of any length

_UNKNOWN = -1


class WordCache:
    """Vectors of the most recently used words, whose spellings take at most `MAX_BYTES`.

    Safe to share between threads and to fork: the lock is held for bookkeeping, never while words
    are encoded, and a forked process gets a new lock.
    """

    def __init__(self, encode: Callable[[Sequence[str]], Tensor], capacity: int) -> None:
        """Args:
        encode: distinct words -> (U, P), without gradients.
        capacity: maximum number of words kept; 0 turns the cache off.
        """
        self.capacity = capacity
        self._encode = encode
        self._slots: dict[str, int] = {}
        self._words: list[str] = []  # by slot
        self._bytes = 0  # of all of them
        self._used = np.zeros(capacity, np.int64)  # when each slot was last used
        self._time = 0
        self._table: Tensor | None = None
        self._version: Hashable = None
        self._lock = Lock()
        _caches_to_unlock().add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"_encode": self._encode, "capacity": self.capacity}

    def __setstate__(self, state: dict[str, Any]) -> None:  # copies and pickles start empty
        self.__init__(state["_encode"], state["capacity"])  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._slots)

    def vectors(self, words: Sequence[str], version: Hashable = None) -> Tensor:
        """Return the vectors of distinct words, (U, P); words not in the cache are encoded now.

        Args:
            words: distinct words.
            version: version of the weights; vectors of another version are discarded.
        """
        if len(words) > self.capacity:  # they would push each other out
            return self._encode(words)
        with self._lock:
            if version != self._version:
                self._discard()
                self._version = version
            slots = np.fromiter(map(self._slots.get, words, repeat(_UNKNOWN)), np.int64, len(words))
            is_known = slots != _UNKNOWN
            self._time += 1
            self._used[slots[is_known]] = self._time
            known = self._rows(slots[is_known])
        if known is not None and len(known) == len(words):
            return known
        missing = np.flatnonzero(~is_known)
        new_words = [words[i] for i in missing.tolist()]
        new = self._encode(new_words)
        with self._lock:
            if version == self._version:  # otherwise the weights have changed meanwhile
                self._insert(new_words, new)
        if known is None:
            return new
        vectors = new.new_empty(len(words), new.shape[1])
        vectors[to_device(np.flatnonzero(is_known), new.device)] = known
        vectors[to_device(missing, new.device)] = new
        return vectors

    def clear(self) -> None:
        """Discard every word."""
        with self._lock:
            self._discard()

    def unlock_after_fork(self) -> None:
        """Replace the lock in a new process, where the thread that held it does not run."""
        if self._lock.locked():  # the table may be half changed
            self._discard()
        self._lock = Lock()

    def _discard(self) -> None:
        self._slots.clear()
        self._words.clear()
        self._bytes = 0
        self._table = None

    def _rows(self, slots: NDArray[np.int64]) -> Tensor | None:
        """Return the vectors of some slots; None for no slots."""
        if not len(slots):
            return None
        assert self._table is not None
        return self._table[to_device(slots, self._table.device)]

    def _insert(self, words: Sequence[str], vectors: Tensor) -> None:
        """Give slots to words that have none: free ones first, then the longest unused.

        The words of the present call are the last to be replaced.
        """
        if self._slots:  # another thread may have inserted some of them meanwhile
            new = [i for i, word in enumerate(words) if word not in self._slots]
            if len(new) < len(words):
                words = [words[i] for i in new]
                vectors = vectors[to_device(np.array(new, np.int64), vectors.device)]
        num_bytes = sum(map(getsizeof, words))
        if num_bytes > MAX_BYTES:
            return
        if self._bytes + num_bytes > MAX_BYTES:
            self._discard()
        if self._table is None:  # zeros cost no memory before they are written to
            self._table = vectors.new_zeros(self.capacity, vectors.shape[1])
        taken = len(self._words)
        num_free = min(len(words), self.capacity - taken)
        num_freed = len(words) - num_free
        slots = np.arange(taken, taken + len(words))
        if num_freed:
            slots[num_free:] = np.argpartition(self._used[:taken], num_freed - 1)[:num_freed]
        try:
            self._table[to_device(slots, vectors.device)] = vectors
            for slot in slots[num_free:].tolist():
                self._bytes -= getsizeof(self._words[slot])
                del self._slots[self._words[slot]]
            self._words.extend(repeat("", num_free))
            for word, slot in zip(words, slots.tolist(), strict=True):
                self._slots[word] = slot
                self._words[slot] = word
            self._bytes += num_bytes
            self._used[slots] = self._time
        except BaseException:  # also after an interruption the table must not be half changed
            self._discard()
            raise


@cache
def _caches_to_unlock() -> "WeakSet[WordCache]":
    """Return the set of all caches of this process, whose locks a fork replaces."""
    caches: WeakSet[WordCache] = WeakSet()

    def unlock() -> None:
        for word_cache in list(caches):
            word_cache.unlock_after_fork()

    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=unlock)
    return caches
