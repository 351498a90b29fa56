"""The index while it grows: rows go to their places, sentences are appended."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.search.arrays import read_arrays, write_arrays
from elmox.search.index_file import (
    COLUMNS,
    HEADER_BYTES,
    array_bytes,
    file_header,
    padding_after,
)
from elmox.search.words import WordTable

Sentence = tuple[bytes, int, int]  # its text, its line from 0, its start in the line

_SENTENCE_FILES = ("sentence_bounds", "sentences", "sentence_text")
_MAX_INT32 = 2**31 - 1
_COPY_BYTES = 2**24


@dataclass(frozen=True)
class Rows:
    """Uses to write, sentence by sentence.

    Attributes:
        rows: (M,) the row of each use in the index.
        vectors, scales: (M, D) and (M,).
        sentences: the sentences that have these uses.
        tokens: per sentence, the index, start and end of each of its uses.
    """

    rows: NDArray[np.int64]
    vectors: NDArray[np.int8]
    scales: NDArray[np.float32]
    sentences: Sequence[Sentence]
    tokens: Sequence[Sequence[tuple[int, int, int]]]


class IndexWriter:
    """Writes the index of one text; as a context manager it closes its files.

    Attributes:
        num_lines: lines of the text that have been read; the caller counts them.
        seen: (W,) number of uses of each word in these lines; the caller counts them.
    """

    def __init__(self, directory: Path, table: WordTable, dim: int, buffer_bytes: int) -> None:
        """Create the files, or continue where `progress.npz` ends."""
        self._table, self._dim, self._buffer_bytes = table, dim, buffer_bytes
        self._progress = directory / "progress.npz"
        self._pending: list[tuple[NDArray[Any], ...]] = []  # rows, vectors, scales, uses
        self._pending_bytes = 0
        self.num_lines = self._num_sentences = self._num_text_bytes = 0
        self.seen = np.zeros(len(table.words), np.int64)
        if self._progress.exists():
            stored = read_arrays(self._progress)
            self.num_lines, self._num_sentences, self._num_text_bytes = stored["numbers"].tolist()
            self.seen = stored["seen"]
        self._shapes, self._starts = self._layout()
        self._file = _opened(directory / "joined")
        self._sentence_files = {name: _opened(directory / name) for name in _SENTENCE_FILES}
        self._truncate()

    def add(self, rows: Rows) -> None:
        """Take over some rows and sentences; all lines counted so far are in them or before."""
        counts = [len(tokens) for tokens in rows.tokens]
        numbers = self._num_sentences + np.repeat(np.arange(len(counts)), counts)
        uses = np.array([token for tokens in rows.tokens for token in tokens], np.int64)
        uses = np.column_stack([numbers, uses.reshape(-1, 3)])
        places = np.array([sentence[1:] for sentence in rows.sentences], np.int64).reshape(-1, 2)
        if max(uses.max(initial=0), places.max(initial=0)) > _MAX_INT32:
            raise ElmoxError(
                f"the text has more than {_MAX_INT32:,} sentences, or a line of more characters: "
                "make several indexes"
            )
        ends = np.cumsum([len(text) for text, *_ in rows.sentences], dtype=np.int64)
        self._sentence_files["sentence_bounds"].write(_bytes(self._num_text_bytes + ends, "<i8"))
        self._sentence_files["sentences"].write(_bytes(places, "<i4"))
        self._sentence_files["sentence_text"].writelines(text for text, *_ in rows.sentences)
        self._num_sentences += len(rows.sentences)
        self._num_text_bytes += int(ends[-1]) if len(ends) else 0
        self._pending.append((rows.rows, rows.vectors, rows.scales, uses.astype("<i4")))
        self._pending_bytes += len(rows.rows) * self._row_bytes()
        if self._pending_bytes >= self._buffer_bytes:
            self._flush()

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Write what is pending, append the sentences, and write the header."""
        self._flush()
        sizes = {
            "sentence_bounds": (self._num_sentences + 1,),
            "sentences": (self._num_sentences, 2),
            "sentence_text": (self._num_text_bytes,),
        }
        self._file.seek(0, os.SEEK_END)
        for name in _SENTENCE_FILES:
            if name == "sentence_bounds":
                self._file.write(bytes(8))  # where the first sentence starts
            source = self._sentence_files[name]
            source.seek(0)
            while block := source.read(_COPY_BYTES):
                self._file.write(block)
        self._file.seek(0)
        self._file.write(file_header({**self._shapes, **sizes}, meta))
        _sync(self._file)

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        for file in (self._file, *self._sentence_files.values()):
            file.close()

    def _layout(self) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        """Return the shapes of the arrays before the sentences, and where each starts."""
        num_words, num_uses = len(self._table.words), int(self._table.starts[-1])
        shapes: dict[str, tuple[int, ...]] = {
            "word_starts": (num_words + 1,),
            "word_bounds": (num_words + 1,),
            "scales": (num_uses,),
            "uses": (num_uses, len(COLUMNS)),
            "vectors": (num_uses, self._dim),
            "word_text": (sum(len(word.encode()) for word in self._table.words),),
        }
        num_bytes = sum(array_bytes(name, shape) for name, shape in shapes.items())
        shapes["padding"] = (padding_after(num_bytes),)
        starts, end = {}, HEADER_BYTES
        for name, shape in shapes.items():
            starts[name] = end
            end += array_bytes(name, shape)
        return shapes, {**starts, "sentence_bounds": end}

    def _truncate(self) -> None:
        """Discard what was written after `progress.npz`, and write the words."""
        self._file.truncate(self._starts["sentence_bounds"])
        words = [word.encode() for word in self._table.words]
        bounds = np.cumsum([0, *map(len, words)])
        self._write("word_starts", 0, _bytes(self._table.starts, "<i8"))
        self._write("word_bounds", 0, _bytes(bounds, "<i8"))
        self._write("word_text", 0, b"".join(words))
        sizes = (8 * self._num_sentences, 8 * self._num_sentences, self._num_text_bytes)
        for file, size in zip(self._sentence_files.values(), sizes, strict=True):
            file.truncate(size)
            file.seek(size)

    def _flush(self) -> None:
        """Write the pending rows to their places, then record the progress."""
        if self._pending:
            parts = zip(*self._pending, strict=True)
            rows, vectors, scales, uses = (np.concatenate(part) for part in parts)
            order = np.argsort(rows, kind="stable")
            rows = rows[order]
            breaks = (np.flatnonzero(np.diff(rows) != 1) + 1).tolist()
            runs = list(zip([0, *breaks], [*breaks, len(rows)], strict=True)) if len(rows) else []
            for name, values in (("scales", scales), ("uses", uses), ("vectors", vectors)):
                values = values[order]
                for start, stop in runs:
                    self._write(name, int(rows[start]), values[start:stop].tobytes())
            self._pending, self._pending_bytes = [], 0
        for file in (self._file, *self._sentence_files.values()):
            _sync(file)
        numbers = np.array([self.num_lines, self._num_sentences, self._num_text_bytes])
        write_arrays(self._progress, numbers=numbers, seen=self.seen)

    def _write(self, name: str, row: int, content: bytes) -> None:
        """Write rows of an array, from row number `row`."""
        self._file.seek(self._starts[name] + row * array_bytes(name, self._shapes[name][1:]))
        self._file.write(content)

    def _row_bytes(self) -> int:
        return self._dim + 4 + 4 * len(COLUMNS)


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading and writing, without discarding its content."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")


def _bytes(values: NDArray[Any], dtype: str) -> bytes:
    return values.astype(dtype).tobytes()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
