"""The description of a corpus, `corpus.json`: counts, and the size and checksum of every file."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elmox.config import Strict, validated
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.files import read_json
from elmox.io.temporary import hidden_copy, missing
from elmox.text.vocab import SPECIAL_WORDS

FORMAT = 1

INFO_FILE = "corpus.json"
VOCAB_FILE = "vocab.txt"
WORDS_FILE = "words.bin"
OFFSETS_FILE = "words.npy"
COUNTS_FILE = "counts.npy"

_CHECKSUM_BLOCK = 2**20
_CHECKSUM_THREADS = 8  # hashing releases the interpreter


def read_info(path: Path) -> "CorpusInfo":
    """Read and check the `corpus.json` of a corpus directory."""
    if not (path / INFO_FILE).is_file():
        if hidden_copy(path) is not None:
            raise ElmoxError(missing(path, "prepare it again"))
        problem = f"has no {INFO_FILE}" if path.is_dir() else "is not a directory"
        raise ArgumentError(
            "{} {}, expected a corpus made by `elmox prepare`: prepare one, or give its directory "
            "as {}",
            path,
            problem if path.exists() else "does not exist",
            Argument("data.dir", "DIR"),
        )
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
            f"{path}/{INFO_FILE} does not match its digest, so it was changed after it was "
            "written: prepare the text again"
        )
    return info


def checksum(path: Path) -> str:
    """Return the blake2b checksum of a file, in hexadecimal."""
    digest = new_digest()
    with path.open("rb") as file:
        while block := file.read(_CHECKSUM_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def new_digest() -> "hashlib.blake2b":
    """Return a new hash object, as used for all files of a corpus."""
    return hashlib.blake2b(digest_size=16)


def shard_name(split: str, number: int) -> str:
    """Return the file name of a shard of the split `train` or `valid`."""
    return f"{split}-{number:05d}.npy"


def check_files(path: Path, info: "CorpusInfo", verify: bool) -> None:
    """Check that the files of a corpus directory are those that its description names.

    Args:
        path: the directory.
        info: its description.
        verify: check their content too, not only their sizes.
    """
    for file in info.files():
        _check_size(path / file.name, file)
    if verify:
        with ThreadPoolExecutor(_CHECKSUM_THREADS) as pool:
            checks = [pool.submit(_check_content, path / file.name, file) for file in info.files()]
            for check in checks:
                check.result()


def _check_size(path: Path, file: "FileInfo") -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ElmoxError(
            f"{path} cannot be read ({error.strerror}), the corpus is incomplete: copy or prepare "
            "it again"
        ) from error
    if size != file.size:
        raise ElmoxError(
            f"{path} has {size} bytes, expected {file.size}, the corpus is damaged: copy or "
            "prepare it again"
        )


def _check_content(path: Path, file: "FileInfo") -> None:
    if checksum(path) != file.checksum:
        raise ElmoxError(
            f"{path} has another checksum than when it was made: copy or prepare the corpus again"
        )


@dataclass(frozen=True)
class FileInfo(Strict):
    """A file of the corpus: its name, its size in bytes and its blake2b checksum."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True)
class ShardInfo(FileInfo):
    """A shard: a file, and the number of ids in it."""

    length: int


@dataclass(frozen=True)
class SplitInfo(Strict):
    """The training text, or the held-out text.

    Attributes:
        num_documents, num_sentences, num_tokens: tokens are words, without boundaries.
        num_boundary_words: number of literal `<S>` and `</S>`, which became `<UNK>`.
        unknown_share: the share of tokens that are `<UNK>` as a target.
        shards: its files in order.
    """

    num_documents: int
    num_sentences: int
    num_tokens: int
    num_boundary_words: int
    unknown_share: float
    shards: tuple[ShardInfo, ...]

    def __post_init__(self) -> None:
        if not self.shards or any(shard.length < 3 for shard in self.shards):
            raise ElmoxError("shards: expected at least one, and a sentence in each")


@dataclass(frozen=True)
class CorpusInfo(Strict):
    """The content of `corpus.json`.

    Attributes:
        tokenizer: the name of the tokenizer that the text was split with.
        vocab_size: V, number of words in the softmax.
        num_words: W, number of words in the lexicon.
        num_distinct_words: number of distinct words in the training text, without special words.
        max_characters: for the next two.
        cut_share: the share of training tokens that are longer than `max_characters - 2` bytes, so
            that a model does not read their end.
        cut_distinct_share: the same for distinct words.
        train, valid: the texts; `valid` is None if nothing was held out.
        lexicon: the files other than shards.
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
        """A checksum of all fields, and so of all files: it identifies the corpus."""
        canonical = json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)
        digest = new_digest()
        digest.update(canonical.encode())
        return digest.hexdigest()

    def files(self) -> Iterator[FileInfo]:
        """Yield every file except `corpus.json`."""
        yield from self.lexicon
        for split in (self.train, self.valid):
            yield from split.shards if split is not None else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `corpus.json`."""
        return {"format": FORMAT, "digest": self.digest, **asdict(self)}
