"""A prepared corpus: text as word ids on disk, memory-mapped. `elmox prepare` writes it.

    corpus.json          the fields of `CorpusInfo`
    vocab.txt            the softmax vocabulary: the first V words of the lexicon, one per line
    words.bin            the lexicon: the UTF-8 bytes of all W distinct words, concatenated
    words.npy            int64 (W+1,): the offset of each word in words.bin
    counts.npy           int64 (W,): the count of each word in the training text
    train-00000.npy ...  uint32 (N,): the shards, which are the text itself
    valid-00000.npy ...  the same for held-out text, if any

Ids: 0 `<S>`, 1 `</S>`, 2 `<UNK>`, then the other words by decreasing count, words of equal count by
their bytes. The target of an id below V is the id itself, otherwise `<UNK>`; as an input every word
is spelled. `<S>` and `</S>` are counted once per sentence.

A shard is `1 w1..wn 1 w1..wm 1`: a separator, then each sentence followed by one. Both directions
read it. Forward, the target at position p is s[p] and the input is s[p-1], with 1 read as `<S>`.
Backward, the target is s[p], with 1 read as `<S>`, and the input is s[p+1]. So a sentence of n
words has n+1 targets in either direction. Shards can be concatenated: see `TokenStream`.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.text.chars import (
    BEGIN_SENTENCE_ID,
    BEGIN_WORD_ID,
    END_SENTENCE_ID,
    END_WORD_ID,
    FIRST_BYTE_ID,
    WORD_PADDING_ID,
    Spelling,
)
from elmox.text.vocab import BEGIN_ID, END_ID
from elmox.training.corpus.info import (
    COUNTS_FILE,
    OFFSETS_FILE,
    WORDS_FILE,
    CorpusInfo,
    ShardInfo,
    check_files,
    read_info,
)


def open_corpus(path: Path, verify: bool = False) -> "Corpus":
    """Open a corpus directory made by `prepare_corpus`.

    Args:
        path: the directory.
        verify: check the content of every file by its checksum, on several cores; otherwise only
            names and sizes.
    """
    info = read_info(path)
    check_files(path, info, verify)
    return Corpus(path, info)


def _map(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory-map a .npy file that must hold an array of that dtype and shape."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise ElmoxError(f"{path} cannot be read: {error}") from error
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ElmoxError(
            f"{path} holds {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}: "
            "prepare the corpus again"
        )
    return np.asarray(array)


def _max_open_shards() -> int:
    """Return half of the file descriptors of a process: a mapped shard holds one."""
    try:
        import resource
    except ImportError:  # Windows, which has more than enough
        return 2**12
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limit // 2, 2**12) if limit > 0 else 2**12


class Lexicon:
    """All W distinct words by id, memory-mapped."""

    def __init__(self, path: Path, num_words: int) -> None:
        """Open `words.bin` and `words.npy` of a corpus directory."""
        self._offsets: NDArray[np.int64] = _map(path / OFFSETS_FILE, "<i8", (num_words + 1,))
        file = path / WORDS_FILE
        self._bytes: NDArray[np.uint8] = np.asarray(np.memmap(file, dtype=np.uint8, mode="r"))
        if self._offsets[0] != 0 or self._offsets[-1] != len(self._bytes):
            raise ElmoxError(f"{file} does not match {OFFSETS_FILE}: prepare the corpus again")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def word(self, id: int) -> str:
        """Return the word of one id."""
        return self.words([id])[0]

    def words(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> list[str]:
        """Return the words of many ids."""
        index = np.asarray(ids, dtype=np.int64)
        if ((index < 0) | (index >= len(self))).any():
            raise IndexError(f"word ids from {index.min()} to {index.max()} of {len(self)} words")
        starts, stops = self._offsets[index].tolist(), self._offsets[index + 1].tolist()
        return [
            self._bytes[start:stop].tobytes().decode()
            for start, stop in zip(starts, stops, strict=True)
        ]

    def spell(
        self, ids: Sequence[int] | NDArray[np.integer[Any]], max_characters: int = 50
    ) -> Spelling:
        """Spell U words for the character CNN as `spell_bytes` does, from their ids."""
        index = np.asarray(ids, dtype=np.int64)
        starts = self._offsets[index]
        lengths = np.minimum(self._offsets[index + 1] - starts, max_characters - 2)
        spelled = np.full((len(index), max_characters), WORD_PADDING_ID, dtype=np.int16)
        slots, firsts = spelled.reshape(-1), np.arange(0, spelled.size, max_characters)
        slots[firsts] = BEGIN_WORD_ID
        # The bytes of all words in one row: few slots are used, so this beats a mask over them.
        before = np.cumsum(lengths) - lengths  # number of bytes before each word
        along = np.arange(lengths.sum())
        bytes_ = self._bytes[np.repeat(starts - before, lengths) + along]
        slots[np.repeat(firsts + 1 - before, lengths) + along] = (
            bytes_.astype(np.int16) + FIRST_BYTE_ID
        )
        slots[firsts + 1 + lengths] = END_WORD_ID
        for id, mark in ((BEGIN_ID, BEGIN_SENTENCE_ID), (END_ID, END_SENTENCE_ID)):
            rows = index == id
            spelled[rows, 1:] = WORD_PADDING_ID
            spelled[rows, 1:3] = mark, END_WORD_ID
            lengths[rows] = 1
        return Spelling(spelled, lengths + 2)


class TokenStream:
    """The shards of one split as a single stream of ids: a separator, then all their sentences.

    The virtual stream is `[1] + shard[1:] + shard[1:] + ...`, `num_positions + 1` ids.
    """

    def __init__(self, path: Path, shards: Sequence[ShardInfo]) -> None:
        """Prepare to map shards when they are read; `path` is the corpus directory."""

        def map_shard(name: str, length: int) -> NDArray[np.uint32]:
            return _map(path / name, "<u4", (length,))

        self._shards = tuple(shards)
        self._ends = np.cumsum([shard.length - 1 for shard in shards])
        self._mapped = lru_cache(_max_open_shards())(map_shard)

    @property
    def num_shards(self) -> int:
        """Number of shards, which can be permuted."""
        return len(self._shards)

    @property
    def num_positions(self) -> int:
        """Number of targets in either direction: every word and one boundary per sentence."""
        return int(self._ends[-1])

    def read(self, start: int, stop: int) -> NDArray[np.uint32]:
        """Return a copy of the ids from `start` to `stop` (not included), across shards."""
        if not 0 <= start <= stop <= self.num_positions + 1:
            raise IndexError(f"positions {start}:{stop} of a stream of {self.num_positions + 1}")
        ids = np.empty(stop - start, dtype=np.uint32)
        number = int(np.searchsorted(self._ends, start))
        done = 0
        while done < len(ids):
            shard = self._shards[number]
            # Position p is shard[p - before]: only the first shard's separator is in the stream.
            before = int(self._ends[number]) - (shard.length - 1)
            first = start + done - before
            piece = self._mapped(shard.name, shard.length)[first : stop - before]
            ids[done : done + len(piece)] = piece
            done += len(piece)
            number += 1
        return ids

    def gather(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids at many positions, in any order, as an array of the same shape."""
        flat = positions.ravel()
        if len(flat) and not 0 <= flat.min() <= flat.max() <= self.num_positions:
            raise IndexError(f"positions {flat.min()} to {flat.max()} of {self.num_positions + 1}")
        ids = np.empty(len(flat), dtype=np.int64)
        shards = np.searchsorted(self._ends, flat)
        # NumPy's stable sort of small integers is a radix sort, which is many times faster.
        order = np.argsort(shards.astype(np.min_scalar_type(self.num_shards)), kind="stable")
        stops = np.cumsum(np.bincount(shards, minlength=self.num_shards))
        for number, chosen in enumerate(np.split(order, stops[:-1])):
            if len(chosen) == 0:
                continue
            shard = self._shards[number]
            before = int(self._ends[number]) - (shard.length - 1)
            ids[chosen] = self._mapped(shard.name, shard.length)[flat[chosen] - before]
        return ids.reshape(positions.shape)

    def permuted(self, order: Sequence[int]) -> "TokenStream":
        """Return the same shards in another order; both share the mapped files."""
        if sorted(order) != list(range(self.num_shards)):
            raise ValueError(f"{list(order)} is not a permutation of {self.num_shards} shards")
        other = object.__new__(TokenStream)
        other._shards = tuple(self._shards[number] for number in order)
        other._ends = np.cumsum([shard.length - 1 for shard in other._shards])
        other._mapped = self._mapped
        return other


class Corpus:
    """A prepared corpus; see `open_corpus`.

    Attributes:
        path: the directory.
        info: counts and checksums; `info.digest` identifies the corpus.
        lexicon: the W words by id.
        train, valid: the text; `valid` is None if nothing was held out.
    """

    def __init__(self, path: Path, info: CorpusInfo) -> None:
        """Open the files without reading any text."""
        self.path = path
        self.info = info
        self.lexicon = Lexicon(path, info.num_words)
        self.train = TokenStream(path, info.train.shards)
        self.valid = TokenStream(path, info.valid.shards) if info.valid is not None else None

    @property
    def vocab_size(self) -> int:
        """V, number of words in the softmax vocabulary: the ids below it are targets."""
        return self.info.vocab_size

    def vocab(self) -> tuple[str, ...]:
        """Return the softmax vocabulary."""
        return tuple(self.lexicon.words(range(self.vocab_size)))

    def counts(self) -> NDArray[np.int64]:
        """Return the count of each word in the training text, (W,), memory-mapped."""
        return _map(self.path / COUNTS_FILE, "<i8", (self.info.num_words,))
