"""A prepared corpus: text as word ids on disk, memory-mapped. `elmox prepare` writes it.

    corpus.json          what `CorpusInfo` says
    vocab.txt            the softmax vocabulary: the first V words of the lexicon, one a line
    words.bin            the lexicon, all W distinct words: their UTF-8 bytes, end to end
    words.npy            int64 (W+1,): where in words.bin each begins
    counts.npy           int64 (W,): how often each occurs in the training text
    train-00000.npy ...  uint32 (N,): the shards, which are the text itself
    valid-00000.npy ...  the same for held-out text, if any

Ids: 0 `<S>`, 1 `</S>`, 2 `<UNK>`, then the other words by falling count, those of equal count by
their bytes. The target of an id is itself below V and else `<UNK>`; as an input every word is
spelled. A sentence has one `<S>` and one `</S>`, which is their count.

A shard is `1 w1..wn 1 w1..wm 1`: a separator, then each sentence followed by one. Both directions
read it. Forward, the target at place p is s[p] and the input is s[p-1], read as `<S>` where it is
1; backward, the target is s[p], read as `<S>` where it is 1, and the input is s[p+1]. So a sentence
of n words has n+1 targets in either direction. Shards join without a seam: see `TokenStream`.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.io.temporary import missing
from elmox.text.chars import (
    BEGIN_SENTENCE_ID,
    BEGIN_WORD_ID,
    END_SENTENCE_ID,
    END_WORD_ID,
    FIRST_BYTE_ID,
    WORD_PADDING_ID,
    Spelling,
)
from elmox.text.vocab import BEGIN_ID, END_ID, SPECIAL_WORDS

FORMAT = 1

INFO_FILE = "corpus.json"
VOCAB_FILE = "vocab.txt"
WORDS_FILE = "words.bin"
OFFSETS_FILE = "words.npy"
COUNTS_FILE = "counts.npy"

_CHECKSUM_BLOCK = 2**20
_CHECKSUM_THREADS = 8  # hashing lets go of the interpreter


def open_corpus(path: Path, verify: bool = False) -> "Corpus":
    """Open a directory that `elmox prepare` made.

    Args:
        path: the directory.
        verify: also read every file and compare its checksum, on several cores; else only names
            and sizes.
    """
    info = read_info(path)
    for file in info.files():
        _check_size(path / file.name, file)
    if verify:
        with ThreadPoolExecutor(_CHECKSUM_THREADS) as pool:
            checks = [pool.submit(_check_content, path / file.name, file) for file in info.files()]
            for check in checks:
                check.result()
    return Corpus(path, info)


def read_info(path: Path) -> "CorpusInfo":
    """Read and check the `corpus.json` of a corpus directory."""
    if not (path / INFO_FILE).is_file():
        if not path.exists():
            raise ElmoxError(missing(path, "expected a corpus made by `elmox prepare`"))
        what = f"has no {INFO_FILE}" if path.is_dir() else "is not a directory"
        raise ElmoxError(f"{path} {what}: expected a corpus made by `elmox prepare`")
    values = read_json(path / INFO_FILE)
    number = values.pop("format", None)
    if number != FORMAT or number is True:
        raise ElmoxError(
            f"{path}/{INFO_FILE} has format {number!r}, this elmox reads {FORMAT}: prepare the "
            "text again, or use the elmox that made it"
        )
    digest = values.pop("digest", None)
    info = validated(CorpusInfo, values, f"{path}/{INFO_FILE}")
    if digest != info.digest:
        raise ElmoxError(
            f"{path}/{INFO_FILE} does not agree with its own digest: it was changed after "
            "`elmox prepare`; prepare the text again"
        )
    return info


def checksum(path: Path) -> str:
    """The blake2b checksum of a file, in hexadecimal."""
    digest = new_digest()
    with path.open("rb") as file:
        while block := file.read(_CHECKSUM_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def new_digest() -> "hashlib.blake2b":
    """A fresh checksum, as used for all files of a corpus."""
    return hashlib.blake2b(digest_size=16)


def shard_name(split: str, number: int) -> str:
    """The file name of a shard of the split `train` or `valid`."""
    return f"{split}-{number:05d}.npy"


def _check_size(path: Path, file: "FileInfo") -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ElmoxError(
            f"{path} cannot be read ({error.strerror}): the corpus is not whole, copy or prepare "
            "it again"
        ) from error
    if size != file.size:
        raise ElmoxError(
            f"{path} has {size} bytes, expected {file.size}: the corpus is damaged, copy or "
            "prepare it again"
        )


def _check_content(path: Path, file: "FileInfo") -> None:
    if checksum(path) != file.checksum:
        raise ElmoxError(
            f"{path} has changed since it was made (checksum): copy or prepare the corpus again"
        )


def _map(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Memory-map a .npy file that must hold such an array."""
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
    """A mapped shard holds a file descriptor: take half of those that a process may have."""
    try:
        import resource
    except ImportError:  # Windows, which has more than enough
        return 2**12
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limit // 2, 2**12) if limit > 0 else 2**12


@dataclass(frozen=True)
class FileInfo:
    """A file of the corpus: its name, its size in bytes and its blake2b checksum."""

    name: str
    size: int
    checksum: str

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)


@dataclass(frozen=True)
class ShardInfo(FileInfo):
    """A shard: a file, and the number of ids in it."""

    length: int


@dataclass(frozen=True)
class SplitInfo:
    """The training text, or the held-out text.

    Attributes:
        num_documents, num_sentences, num_tokens: tokens are words, boundaries not counted.
        num_boundary_words: literal `<S>` and `</S>`, which became `<UNK>`.
        unknown_share: the part of the tokens that is `<UNK>` as a target.
        shards: its files in order.
    """

    num_documents: int
    num_sentences: int
    num_tokens: int
    num_boundary_words: int
    unknown_share: float
    shards: tuple[ShardInfo, ...]

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        if not self.shards or any(shard.length < 3 for shard in self.shards):
            raise ElmoxError("shards: expected at least one, and a sentence in each")


@dataclass(frozen=True)
class CorpusInfo:
    """What `corpus.json` says.

    Attributes:
        tokenizer: the name of the tokenizer whose words these are.
        vocab_size: V, words of the softmax.
        num_words: W, words of the lexicon.
        num_distinct_words: different words of the training text, special ones not counted.
        max_characters: for the next two.
        cut_share: the part of the training text's tokens that are longer than
            `max_characters - 2` bytes, so that a model does not see their end.
        cut_distinct_share: the same of its different words.
        train, valid: the texts; `valid` is None where nothing was held out.
        lexicon: the files beside the shards.
    """

    tokenizer: str
    vocab_size: int
    num_words: int
    num_distinct_words: int
    max_characters: int
    cut_share: float
    cut_distinct_share: float
    train: SplitInfo
    valid: SplitInfo | None
    lexicon: tuple[FileInfo, ...]

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def __post_init__(self) -> None:
        names = {file.name for file in self.lexicon}
        if names != {VOCAB_FILE, WORDS_FILE, OFFSETS_FILE, COUNTS_FILE}:
            raise ElmoxError(f"lexicon: {sorted(names)} are not the files of a lexicon")
        if not len(SPECIAL_WORDS) <= self.vocab_size <= self.num_words:
            raise ElmoxError(
                f"vocab_size: {self.vocab_size} of {self.num_words} words, expected at least "
                f"{len(SPECIAL_WORDS)} and at most all"
            )

    @property
    def digest(self) -> str:
        """Identifies the corpus: a checksum of all that is said here, so of all files."""
        canonical = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)
        digest = new_digest()
        digest.update(canonical.encode())
        return digest.hexdigest()

    def files(self) -> Iterator[FileInfo]:
        """Every file but `corpus.json`."""
        yield from self.lexicon
        for split in (self.train, self.valid):
            yield from split.shards if split is not None else ()

    def to_dict(self) -> dict[str, Any]:
        """The content of `corpus.json`."""
        return {"format": FORMAT, "digest": self.digest, **asdict(self)}


class Lexicon:
    """All W distinct words by id, memory-mapped."""

    def __init__(self, path: Path, num_words: int) -> None:
        """Open `words.bin` and `words.npy` of a corpus directory."""
        self._offsets: NDArray[np.int64] = _map(path / OFFSETS_FILE, "<i8", (num_words + 1,))
        file = path / WORDS_FILE
        self._bytes: NDArray[np.uint8] = np.asarray(np.memmap(file, dtype=np.uint8, mode="r"))
        if self._offsets[0] != 0 or self._offsets[-1] != len(self._bytes):
            raise ElmoxError(f"{file} does not fit to {OFFSETS_FILE}: prepare the corpus again")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def word(self, id: int) -> str:
        """The word of one id."""
        return self.words([id])[0]

    def words(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> list[str]:
        """The words of many ids."""
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
        """Spell U words for the character CNN, as `spell_bytes` does, from their ids alone."""
        index = np.asarray(ids, dtype=np.int64)
        starts = self._offsets[index]
        lengths = np.minimum(self._offsets[index + 1] - starts, max_characters - 2)
        spelled = np.full((len(index), max_characters), WORD_PADDING_ID, dtype=np.int16)
        slots, firsts = spelled.reshape(-1), np.arange(0, spelled.size, max_characters)
        slots[firsts] = BEGIN_WORD_ID
        # All words' bytes in one row: few slots are used, so this beats a mask over all of them.
        before = np.cumsum(lengths) - lengths  # bytes of the words before each
        along = np.arange(lengths.sum())
        found = self._bytes[np.repeat(starts - before, lengths) + along]
        slots[np.repeat(firsts + 1 - before, lengths) + along] = (
            found.astype(np.int16) + FIRST_BYTE_ID
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

    The virtual stream is `[1] + shard[1:] + shard[1:] + ...`, `num_positions + 1` places of it.
    """

    def __init__(self, path: Path, shards: Sequence[ShardInfo]) -> None:
        """Shards are mapped when they are read; `path` is the corpus directory."""

        def map_shard(name: str, length: int) -> NDArray[np.uint32]:
            return _map(path / name, "<u4", (length,))

        self._shards = tuple(shards)
        self._ends = np.cumsum([shard.length - 1 for shard in shards])
        self._mapped = lru_cache(_max_open_shards())(map_shard)

    @property
    def num_shards(self) -> int:
        """How many files there are to permute."""
        return len(self._shards)

    @property
    def num_positions(self) -> int:
        """Targets in either direction: every word and one boundary per sentence."""
        return int(self._ends[-1])

    def read(self, start: int, stop: int) -> NDArray[np.uint32]:
        """A copy of the places `start` to `stop` (not included), across shards."""
        if not 0 <= start <= stop <= self.num_positions + 1:
            raise IndexError(f"places {start}:{stop} of a stream of {self.num_positions + 1}")
        ids = np.empty(stop - start, dtype=np.uint32)
        number = int(np.searchsorted(self._ends, start))
        done = 0
        while done < len(ids):
            shard = self._shards[number]
            # Place p is shard[p - before]: only the first shard's separator is a place.
            before = int(self._ends[number]) - (shard.length - 1)
            first = start + done - before
            piece = self._mapped(shard.name, shard.length)[first : stop - before]
            ids[done : done + len(piece)] = piece
            done += len(piece)
            number += 1
        return ids

    def gather(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids at many places, in any order; an array of the same shape."""
        flat = places.ravel()
        if len(flat) and not 0 <= flat.min() <= flat.max() <= self.num_positions:
            raise IndexError(f"places {flat.min()} to {flat.max()} of {self.num_positions + 1}")
        ids = np.empty(len(flat), dtype=np.int64)
        shards = np.searchsorted(self._ends, flat)
        # Of small integers numpy's stable sort is a radix sort, many times as fast.
        order = np.argsort(shards.astype(np.min_scalar_type(self.num_shards)), kind="stable")
        stops = np.cumsum(np.bincount(shards, minlength=self.num_shards))
        for number, chosen in enumerate(np.split(order, stops[:-1])):
            if len(chosen) == 0:
                continue
            shard = self._shards[number]
            before = int(self._ends[number]) - (shard.length - 1)
            ids[chosen] = self._mapped(shard.name, shard.length)[flat[chosen] - before]
        return ids.reshape(places.shape)

    def permuted(self, order: Sequence[int]) -> "TokenStream":
        """The same shards in another order; they are mapped once for both."""
        if sorted(order) != list(range(self.num_shards)):
            raise ValueError(f"{list(order)} is no permutation of {self.num_shards} shards")
        other = object.__new__(TokenStream)
        other._shards = tuple(self._shards[number] for number in order)
        other._ends = np.cumsum([shard.length - 1 for shard in other._shards])
        other._mapped = self._mapped
        return other


class Corpus:
    """A prepared corpus; see `open_corpus`.

    Attributes:
        path: its directory.
        info: its counts and checksums; `info.digest` identifies it.
        lexicon: the W words by id.
        train, valid: the text; `valid` is None where nothing was held out.
    """

    def __init__(self, path: Path, info: CorpusInfo) -> None:
        """Files are opened, but nothing of the text is read."""
        self.path = path
        self.info = info
        self.lexicon = Lexicon(path, info.num_words)
        self.train = TokenStream(path, info.train.shards)
        self.valid = TokenStream(path, info.valid.shards) if info.valid is not None else None

    @property
    def vocab_size(self) -> int:
        """V, words of the softmax vocabulary: the ids below it are targets."""
        return self.info.vocab_size

    def vocab(self) -> tuple[str, ...]:
        """The softmax vocabulary."""
        return tuple(self.lexicon.words(range(self.vocab_size)))

    def counts(self) -> NDArray[np.int64]:
        """(W,) how often each word occurs in the training text, memory-mapped."""
        return _map(self.path / COUNTS_FILE, "<i8", (self.info.num_words,))
