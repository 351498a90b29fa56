"""The lexicon under construction: words are numbered as they occur, and sorted at the end.

The final order is `<S>`, `</S>`, `<UNK>`, then the words of a fixed vocabulary in its order, then
all others by decreasing count, words of equal count by their bytes. Python compares strings by code
point, which is the order of their UTF-8 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.text.vocab import SPECIAL_WORDS, read_vocab
from elmox.training.corpus.info import (
    COUNTS_FILE,
    OFFSETS_FILE,
    VOCAB_FILE,
    WORDS_FILE,
    FileInfo,
    checksum,
)

_WORDS_AT_ONCE = 2**16


def read_fixed_vocab(path: Path) -> list[str]:
    """Return the words of a bilm-tf vocabulary in order, without the special words.

    A duplicate keeps its first position.
    """
    try:
        words = read_vocab(path).words
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise ElmoxError(
            f"{path} lacks {' and '.join(missing)}: expected a vocabulary in bilm-tf's order, "
            f"{', '.join(SPECIAL_WORDS)} and then a word per line"
        )
    if "" in words:
        raise ElmoxError(f"{path}, line {words.index('') + 1}: empty, expected a word")
    return [word for word in dict.fromkeys(words) if word not in SPECIAL_WORDS]


def write_lexicon(folder: Path, ranking: "Ranking") -> tuple[FileInfo, ...]:
    """Write the four files of a lexicon into the corpus directory and describe them."""
    lengths = np.zeros(len(ranking.words), dtype=np.int64)
    with (folder / WORDS_FILE).open("wb") as words, (folder / VOCAB_FILE).open("wb") as vocab:
        for start in range(0, len(ranking.words), _WORDS_AT_ONCE):
            encoded = [word.encode() for word in ranking.words[start : start + _WORDS_AT_ONCE]]
            lengths[start : start + len(encoded)] = [len(word) for word in encoded]
            words.write(b"".join(encoded))
            vocab.writelines(word + b"\n" for word in encoded[: max(ranking.vocab_size - start, 0)])
    np.save(folder / OFFSETS_FILE, np.concatenate([[0], np.cumsum(lengths)]).astype("<i8"))
    np.save(folder / COUNTS_FILE, ranking.counts.astype("<i8"))
    paths = (folder / name for name in (VOCAB_FILE, WORDS_FILE, OFFSETS_FILE, COUNTS_FILE))
    return tuple(FileInfo(path.name, path.stat().st_size, checksum(path)) for path in paths)


@dataclass(frozen=True)
class Ranking:
    """The lexicon in its final order.

    Attributes:
        words: all W words by final id.
        counts: (W,) their counts.
        final_ids: (W,) the final id of every provisional one.
        vocab_size: V; the first V words are the softmax vocabulary.
    """

    words: list[str]
    counts: NDArray[np.int64]
    final_ids: NDArray[np.uint32]
    vocab_size: int


class WordCounts(dict[str, int]):
    """All words with their counts and provisional ids, in the order in which they occur.

    Special words and those of a fixed vocabulary come first, so their ids are final.
    """

    def __init__(self, vocab: Sequence[str] | None) -> None:
        """Number the fixed words: the special ones, then those of `vocab`, if there is one."""
        fixed = (*SPECIAL_WORDS, *(vocab or ()))
        super().__init__(zip(fixed, range(len(fixed)), strict=True))
        self._num_fixed = len(fixed)
        self._has_vocab = vocab is not None
        self._counts = np.zeros(2 * len(fixed), dtype=np.int64)

    def __missing__(self, word: str) -> int:
        id = self[word] = len(self)
        return id

    def ids(self, words: Sequence[str]) -> NDArray[np.uint32]:
        """Return the provisional ids of words; new words get the next ids."""
        ids = np.fromiter(map(self.__getitem__, words), dtype=np.uint32, count=len(words))
        if len(self) > len(self._counts):
            more = np.zeros(2 * len(self) - len(self._counts), dtype=np.int64)
            self._counts = np.concatenate([self._counts, more])
        return ids

    def count(self, ids: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
        """Add to the counts of distinct ids."""
        self._counts[ids] += counts

    def ranking(self, min_count: int, max_vocab_size: int | None) -> Ranking:
        """Sort the words. A fixed vocabulary makes both arguments irrelevant.

        Args:
            min_count: minimum count of a word in the softmax vocabulary.
            max_vocab_size: maximum size of the softmax vocabulary, with special words; None for no
                limit.
        """
        words = list(self)
        fixed, counts = self._num_fixed, self._counts
        by_bytes = np.array(sorted(range(fixed, len(words)), key=words.__getitem__), dtype=np.int64)
        by_count = by_bytes[np.argsort(-counts[by_bytes], kind="stable")]
        order = np.concatenate([np.arange(fixed), by_count])
        final_ids = np.empty(len(words), dtype=np.uint32)
        final_ids[order] = np.arange(len(words), dtype=np.uint32)
        vocab_size = fixed
        if not self._has_vocab:
            vocab_size += int(np.count_nonzero(counts[by_count] >= max(min_count, 1)))
            vocab_size = min(vocab_size, max_vocab_size or vocab_size)
        return Ranking([words[i] for i in order.tolist()], counts[order], final_ids, vocab_size)
