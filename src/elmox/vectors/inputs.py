"""Inputs of `embed_file` and `embed_sentences`: lines to embed, and a digest that identifies them.

An interrupted run continues only with the same input. `identity` is what decides that:

| input | identity |
|---|---|
| a file | a digest of its bytes |
| sentences that can be read twice (a list, a column of a table) | a digest of their tokens |
| any sentences with a `job_id` | the `job_id`: the caller vouches for the content |
| stdin, a pipe, a generator without a `job_id` | none: to hash it would be to use it up |
"""

import hashlib
import json
import stat
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from pathlib import Path
from typing import Protocol

from elmox.elmo import Elmo
from elmox.errors import ElmoxError, shortened
from elmox.io.parquet import load_pyarrow, num_rows
from elmox.io.text_files import COMPRESSIONS, STDIN, check_text
from elmox.text.inputs import Text, check_texts, checked_tokens
from elmox.text.lines import (
    BEGINNING,
    Line,
    Position,
    block_starts,
    line_format,
    read_lines,
)

# A block is cut off from the next one, so it should hold several chunks; and it is the smallest
# share of a text that can be embedded by itself, so it should not be large.
BLOCK_BYTES = 2**18  # at least
BLOCK_CHUNKS = 4
BYTES_PER_TOKEN = 6  # of a text
BLOCK_ROWS = 2048


class Input(Protocol):
    """Lines to embed; each becomes one entry of the output.

    Attributes:
        settings: how lines are read; stored with the output, and part of the job.
    """

    settings: dict[str, str]

    def identity(self) -> str | None:
        """Return a string that only the same input has; None if it cannot be read again."""

    def size(self) -> int | None:
        """Return the size of the input in units of `Line.start`; None if it is not known."""

    def block_size(self, chunk_tokens: int) -> int:
        """Return the size of a block that holds several chunks, in units of `Line.start`."""

    def block_of(self, num_done: int, size: int) -> Position:
        """Return the beginning of the block in which the last of `num_done` lines is."""

    def lines(self, origin: Position = BEGINNING, skip: int = 0) -> Iterator[Line]:
        """Read the lines from `origin` on, without the first `skip`."""


class FileInput:
    """The lines of a text file, a JSON lines file, a Parquet file, or stdin.

    Attributes:
        settings: see `Input`.
        source: the path, or - for stdin.
    """

    def __init__(self, elmo: Elmo, source: str, tokenized: bool) -> None:
        """Check that the source can be read.

        Args:
            elmo: the model, for its tokenizer.
            source: a path, or - for stdin.
            tokenized: lines are tokens with white space between them, not running text.
        """
        check_text(source)
        self._format = line_format(source, tokenized)
        if self._format == "parquet":
            load_pyarrow()
        self.settings: dict[str, str] = {"lines": self._format}
        self.source = source
        self._tokenize = elmo.tokenize

    def identity(self) -> str | None:
        """Return a digest of the file; None for stdin and pipes."""
        if self.source == STDIN or not stat.S_ISREG(Path(self.source).stat().st_mode):
            return None
        with open(self.source, "rb") as file:
            return hashlib.file_digest(file, _new_digest).hexdigest()

    def size(self) -> int | None:
        """Return the number of bytes, or of rows of a Parquet file; None if it is not known."""
        if self._format == "parquet":
            return num_rows(self.source)
        if self.source == STDIN or self.source.lower().endswith(COMPRESSIONS):
            return None
        return Path(self.source).stat().st_size or None

    def block_size(self, chunk_tokens: int) -> int:
        """Return the size of a block in bytes, or in rows of a Parquet file."""
        if self._format == "parquet":
            return BLOCK_ROWS
        return max(BLOCK_BYTES, BLOCK_CHUNKS * BYTES_PER_TOKEN * chunk_tokens)

    def blocks(self, size: int) -> list[Position]:
        """Return the beginning of each block."""
        return block_starts(self.source, self._format, size)

    def block_of(self, num_done: int, size: int) -> Position:
        """Return the beginning of the block in which the last of `num_done` lines is."""
        if not num_done:
            return BEGINNING
        return [start for start in self.blocks(size) if start.line < num_done][-1]

    def lines(self, origin: Position = BEGINNING, skip: int = 0) -> Iterator[Line]:
        """Read the lines from `origin` on, without the first `skip`."""
        return read_lines(self.source, self._format, self._tokenize, skip, origin)


class SentenceInput:
    """Sentences from memory or from a generator, as strings or lists of tokens."""

    settings: dict[str, str]

    def __init__(self, elmo: Elmo, sentences: Iterable[Text], job_id: str | None) -> None:
        """Wrap the sentences; nothing is read yet.

        Args:
            elmo: the model, for its tokenizer.
            sentences: strings or lists of tokens.
            job_id: identifies the content, if the caller can vouch for it.
        """
        if isinstance(sentences, str):
            raise ElmoxError(
                f"sentences is the string {shortened(sentences, 40)}: expected several sentences, "
                "put it into a list"
            )
        check_texts(sentences)
        self.settings = {}
        self._sentences = sentences
        self._job_id = job_id
        self._tokenize = elmo.tokenize

    def identity(self) -> str | None:
        """Return the caller's `job_id`, or a digest of sentences that can be read twice."""
        if self._job_id is not None:
            return f"job_id {self._job_id}"
        if isinstance(self._sentences, Iterator):
            return None
        digest = _new_digest()
        for row, sentence in enumerate(self._sentences):
            # JSON, so that ["a b"], ["a", "b"] and "a b" differ.
            value = sentence if isinstance(sentence, str) else list(checked_tokens(row, sentence))
            digest.update(json.dumps(value).encode() + b"\n")
        return digest.hexdigest()

    def size(self) -> int | None:
        """Return the number of sentences; None if it is not known."""
        return len(self._sentences) if isinstance(self._sentences, Sized) else None

    def block_size(self, chunk_tokens: int) -> int:
        """Return the number of sentences of a block."""
        return BLOCK_ROWS

    def block_of(self, num_done: int, size: int) -> Position:
        """Return the beginning of the block in which the last of `num_done` sentences is."""
        row = max(0, num_done - 1) // size * size
        return Position(row, row)

    def lines(self, origin: Position = BEGINNING, skip: int = 0) -> Iterator[Line]:
        """Return the sentences from `origin` on, without the first `skip`, as lines."""
        for row, sentence in islice(enumerate(self._sentences), origin.line + skip, None):
            if isinstance(sentence, str):
                tokens, text = self._tokenize(sentence), sentence
            else:
                tokens, text = list(checked_tokens(row, sentence)), None
            yield Line([tokens] if tokens else [], text, start=row)


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)
