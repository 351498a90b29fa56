"""A cache of word vectors in two generations: the encoder runs once per distinct word.

New words go into the young generation. When that is full it becomes the old one, and what the old
one held is forgotten, except words that were used again in the meantime. So frequent words stay.
"""

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray


class WordVectors:
    """Vectors of recently used words. Safe to share between threads."""

    def __init__(
        self, encode: Callable[[Sequence[str]], NDArray[np.float32]], capacity: int
    ) -> None:
        """Start empty.

        Args:
            encode: distinct words -> (U, P).
            capacity: maximum number of words.
        """
        self._encode = encode
        self._generation_size = capacity // 2
        self._young: dict[str, NDArray[np.float32]] = {}
        self._old: dict[str, NDArray[np.float32]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of distinct words, (U, P); those not in the cache are encoded now."""
        with self._lock:
            young, old = self._young, self._old
        rows = [young.get(word) for word in words]
        absent = [i for i, row in enumerate(rows) if row is None]
        if absent:
            for i in absent:
                rows[i] = old.get(words[i])
            unknown = [i for i in absent if rows[i] is None]
            if unknown:
                for i, row in zip(unknown, self._encode([words[i] for i in unknown]), strict=True):
                    rows[i] = row.copy()  # a view would keep its whole batch in memory
            with self._lock:
                self._insert([words[i] for i in absent], [rows[i] for i in absent])
        return np.stack(rows)  # type: ignore[arg-type]  # no row is None any more

    def clear(self) -> None:
        """Forget every word."""
        with self._lock:
            self._young, self._old = {}, {}

    def _insert(self, words: list[str], rows: list[NDArray[np.float32] | None]) -> None:
        if len(self._young) + len(words) > self._generation_size:
            self._young, self._old = {}, self._young
        for word, row in list(zip(words, rows, strict=True))[: self._generation_size]:
            assert row is not None
            self._young[word] = row
