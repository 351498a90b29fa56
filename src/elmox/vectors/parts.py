"""The parts of an unfinished output: closed ones, which are safe, and an open one.

A part is a plain `.npy` file (`shards/shard-00000.npy`: the tokens of consecutive entries, see
`layout`) and its index (`index/shard-00000.npy`: one row of shard, first token, number of tokens
and checksum per entry). A format may also need a record per entry, a line of JSON
(`records/shard-00000.jsonl`). The shard is renamed last, so a part is closed exactly when its shard
has its final name. Other files that a crash leaves are ignored and written again.

The open part is saved every 30 seconds: `open-00003.json` states what of it is safe, and the next
run continues from there.

The entries alone decide where a part ends. An interrupted run therefore leaves the same parts as an
undisturbed one, and the shards can be the final output without changes.

Parts are read and written, not memory-mapped: a map's pages count as the process's memory, and a
full disk under a map is a bus error instead of an exception.
"""

import io
import json
import operator
import os
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.io.background import Background
from elmox.io.files import sync_directory, write_whole, writing
from elmox.vectors.checksums import add_rows, finished
from elmox.vectors.layout import Array, Layout

Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]

PART_BYTES = 64 << 20
PART_ENTRIES = 1 << 16  # bounds the index of a part of empty lines
WINDOW_BYTES = 4 << 20
SAVE_SECONDS = 30.0
NO_RECORD = b"{}"
_INDEX_COLUMNS = 4


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file; NumPy pads it to a size independent of shape[0]."""
    buffer = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def shard_name(number: int) -> str:
    """Return the file name of a shard and of its index."""
    return f"shard-{number:05d}.npy"


def record_name(number: int) -> str:
    """Return the file name of a shard's records."""
    return f"shard-{number:05d}.jsonl"


class Entry:
    """One entry inside a shard file, read and assigned by slices like an array.

    An index consists of integers, slices and `...`; on the token axis, slices must have step 1.
    Only the indexed tokens are in memory. Values that are never assigned are zero.

    Attributes:
        shape: (L+1, T, D) or (T, D).
        num_tokens: T.
        checksum: see `checksums`; 0 in an open part.
    """

    def __init__(
        self, file: io.FileIO, offset: int, layout: Layout, num_tokens: int, checksum: int = 0
    ) -> None:
        """Describe the `num_tokens` rows that start at byte `offset` of `file`."""
        self.checksum = checksum
        self.shape = layout.shape(num_tokens)
        self.num_tokens = num_tokens
        self._file = file
        self._offset = offset
        self._layout = layout

    def __getitem__(self, key: Index) -> Array:
        """Read, as from an array of `shape`."""
        start, stop, inner = self._split(key)
        return np.asarray(self._layout.entry(self._load(start, stop))[inner])

    def __setitem__(self, key: Index, value: npt.ArrayLike) -> None:
        """Write, as into an array of `shape`."""
        start, stop, inner = self._split(key)
        if all(isinstance(item, slice) and item == slice(None) for item in inner):
            rows = np.empty((stop - start, *self._layout.row_shape), self._layout.numpy_dtype)
        else:
            rows = self._load(start, stop)
        self._layout.entry(rows)[inner] = value
        self.write_rows(start, rows)

    def windows(self, max_bytes: int = WINDOW_BYTES) -> list[slice]:
        """Return slices of the token axis, each small enough to hold in memory."""
        return self._layout.windows(self.num_tokens, max_bytes)

    def compute_checksum(self, number: int) -> int:
        """Return the checksum of the entry's content; `number` is that of the entry."""
        checksum = 0
        for window in self.windows():
            checksum = add_rows(checksum, self._load(window.start, window.stop))
        return finished(checksum, number, self.num_tokens, self._layout)

    def _split(self, key: Index) -> tuple[int, int, tuple[Any, ...]]:
        """Split an index into the first token, the end, and the index within that window."""
        keys: list[int | slice | EllipsisType] = [*key] if isinstance(key, tuple) else [key]
        missing = len(self.shape) - sum(item is not Ellipsis for item in keys)
        fill = [slice(None)] * missing
        at = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
        keys[at : at + 1] = fill
        if len(keys) != len(self.shape):
            raise IndexError(f"index {key!r} does not fit an entry of shape {self.shape}")
        tokens = keys[-2]
        if isinstance(tokens, slice):
            start, stop, step = tokens.indices(self.num_tokens)
            if step != 1:
                raise IndexError(f"tokens {tokens!r}: only slices of step 1")
            keys[-2] = slice(None)
            return start, max(start, stop), tuple(keys)
        token = range(self.num_tokens)[operator.index(cast(int, tokens))]
        keys[-2] = 0
        return token, token + 1, tuple(keys)

    def _load(self, start: int, stop: int) -> Array:
        """Read rows start..stop: (stop - start, L+1, D)."""
        rows = np.empty((stop - start, *self._layout.row_shape), self._layout.numpy_dtype)
        data = rows.reshape(-1).view(np.uint8).data
        self._file.seek(self._offset + start * self._layout.row_bytes)
        while data:
            count = self._file.readinto(data)
            if not count:
                raise ElmoxError(f"{self._file.name!s} is shorter than its index: delete it")
            data = data[count:]
        return rows

    def write_rows(self, start: int, rows: Array) -> None:
        """Write rows of the layout's dtype, (n, L+1, D), from token `start` on."""
        assert rows.dtype == self._layout.numpy_dtype
        data = rows.reshape(-1).view(np.uint8).data
        try:
            with writing(Path(str(self._file.name)), resumable=True):
                self._file.seek(self._offset + start * self._layout.row_bytes)
                while data:
                    data = data[self._file.write(data) or 0 :]
        except ElmoxError:
            self._file.close()  # no entry may follow an incomplete one
            raise


class Parts:
    """All parts of one job: the closed ones, to be read, and the open one, to be filled.

    Closing a part waits for the disk four times, so it is done while the next one is filled.

    Attributes:
        num_closed: number of parts that are closed or being closed; `seal` waits for the latter.
        num_entries: number of entries in them.
        num_tokens: number of tokens in them.
        num_open: number of entries in the open part.
        shards: the directory of the closed parts' vectors.
        needs_records: whether every entry has a record.
    """

    def __init__(
        self,
        directory: Path,
        layout: Layout,
        part_bytes: int = PART_BYTES,
        *,
        with_records: bool = False,
        first_entry: int = 0,
    ) -> None:
        """Read the index of the closed parts in `directory`, which no other process uses.

        Args:
            directory: the directory of the parts.
            layout: shape and dtype of the entries.
            part_bytes: a part is closed when its vectors have reached this size.
            with_records: whether every entry has a record.
            first_entry: the number of the first entry.
        """
        self.layout = layout
        self._first_entry = first_entry
        self.needs_records = with_records
        self.shards = directory / "shards"
        self._indexes = directory / "index"
        self._records = directory / "records" if with_records else None
        self._directory = directory
        self._part_bytes = part_bytes
        self._closing = Background()
        self._file: io.FileIO | None  # the open part
        self._record_file: io.BufferedWriter | None  # its records
        self._lengths: array[int]  # the number of tokens of each of its entries
        self._rows: int  # the number of tokens of all of them
        self._saved: float  # when it was saved or started
        self._open_next()
        self._header = len(npy_header(layout.numpy_dtype, (0, *layout.row_shape)))
        self.num_closed = self.num_entries = self.num_tokens = 0
        for folder in (self.shards, self._indexes, self._records):
            if folder is not None:
                folder.mkdir(exist_ok=True)
        while (self.shards / shard_name(self.num_closed)).exists():
            index = np.load(self._indexes / shard_name(self.num_closed))
            if index.shape[1:] != (_INDEX_COLUMNS,):
                raise ElmoxError(
                    f"{directory} was begun by another version of elmox: finish it with that one, "
                    "or delete the directory"
                )
            self._count(index)
        self._take_up_saved()

    @property
    def num_open(self) -> int:
        """Number of entries in the open part."""
        return len(self._lengths)

    def reserve(self, num_tokens: int, record: bytes = NO_RECORD) -> Entry:
        """Return space for the next entry, to be filled before the next call."""
        self._make_room()
        return self._reserve([num_tokens], num_tokens, [record])

    def reserve_run(
        self, lengths: NDArray[np.int64], records: Sequence[bytes] | None = None
    ) -> tuple[Entry, int]:
        """Return space for those of the next entries that belong into the same part.

        Args:
            lengths: number of tokens of each of the next entries; at least one.
            records: the record of each, if they have any.

        Returns:
            Their concatenated rows as one entry, to be filled before the next call, and the number
            of entries, at least 1.
        """
        self._make_room()
        # As in `_make_room`: the entry that fills a part is its last.
        full = -(-self._part_bytes // self.layout.row_bytes) - self._rows
        ends = np.cumsum(lengths)
        count = int(np.searchsorted(ends, full)) + 1
        count = min(count, len(lengths), PART_ENTRIES - len(self._lengths))
        records = [NO_RECORD] * count if records is None else records[:count]
        return self._reserve(lengths[:count], int(ends[count - 1]), records), count

    def append_rows(
        self, rows: Array, lengths: NDArray[np.int64], records: Sequence[bytes] | None = None
    ) -> None:
        """Write the next entries all at once.

        Args:
            rows: their tokens end to end, as on disk: (tokens, L+1, D) or (tokens, D), of the
                layout's dtype.
            lengths: tokens of each entry.
            records: a JSON object of each entry, for formats that need it.
        """
        start = 0
        while len(lengths):
            run, count = self.reserve_run(lengths, records)
            run.write_rows(0, rows[start : start + run.num_tokens])
            self._save_if_due()
            start += run.num_tokens
            lengths = lengths[count:]
            records = None if records is None else records[count:]

    def seal(self) -> None:
        """Close the open part, if there is one; after this, all parts survive a crash."""
        self._begin_to_close()
        self._closing.wait()

    def discard(self) -> None:
        """Discard the open part, once those before it are closed."""
        self._closing.stop()
        for file in (self._file, self._record_file):
            if file is not None:
                file.close()
        self._open_next()

    def indexes(self) -> Iterator[Array]:
        """Yield the index of each closed part: (number of entries, 4) integers."""
        for number in range(self.num_closed):
            yield np.load(self._indexes / shard_name(number))

    def records(self) -> Iterator[bytes]:
        """Yield the record of each entry of the closed parts."""
        assert self._records is not None
        for number in range(self.num_closed):
            with (self._records / record_name(number)).open("rb") as file:
                for line in file:
                    yield line.rstrip(b"\n")

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries of the closed parts; each is valid until the next one."""
        for number, index in enumerate(self.indexes()):
            with io.FileIO(self.shards / shard_name(number)) as file:
                yield from self._entries(file, index)

    def _entries(self, file: io.FileIO, index: Array) -> Iterator[Entry]:
        """Yield the entries of a part, each valid until the next one."""
        for start, num_tokens, checksum in index[:, 1:].tolist():
            offset = self._header + start * self.layout.row_bytes
            yield Entry(file, offset, self.layout, num_tokens, checksum)

    def _count(self, index: Array) -> None:
        """Count one more closed part."""
        self.num_closed += 1
        self.num_entries += len(index)
        self.num_tokens += int(index[:, 2].sum())

    def _make_room(self) -> None:
        """Start closing the open part if it is full, or save it: its entries are complete."""
        self._save_if_due()
        if self._rows * self.layout.row_bytes >= self._part_bytes or (
            len(self._lengths) >= PART_ENTRIES
        ):
            self._begin_to_close()

    def _begin_to_close(self) -> None:
        """Start closing the open part, if there is one, after the one before it."""
        if self._file is None:
            return
        index = np.zeros((len(self._lengths), _INDEX_COLUMNS), "<i8")
        index[:, 0] = self.num_closed
        index[:, 2] = self._lengths
        index[1:, 1] = np.cumsum(index[:-1, 2])
        files = (self._file, self._record_file)
        first = self._first_entry + self.num_entries
        self._closing.submit(partial(self._close, *files, self.num_closed, index, first))
        self._open_next()
        self._count(index)

    def _close(
        self,
        file: io.FileIO,
        records: io.BufferedWriter | None,
        number: int,
        index: Array,
        first: int,
    ) -> None:
        """Flush a part to the disk and give it its final name; its first entry is `first`."""
        open_path, name = Path(str(file.name)), shard_name(number)
        num_tokens = int(index[:, 2].sum())
        header = npy_header(self.layout.numpy_dtype, (num_tokens, *self.layout.row_shape))
        assert len(header) == self._header
        with writing(open_path, resumable=True):
            if records is not None and self._records is not None:
                with records:
                    records.flush()
                    os.fsync(records.fileno())
                Path(records.name).replace(self._records / record_name(number))
                sync_directory(self._records)
            with file:
                entries = enumerate(self._entries(file, index), first)
                index[:, 3] = [entry.compute_checksum(i) for i, entry in entries]
                file.seek(0)
                file.write(header)
                os.fsync(file.fileno())
            write_whole(
                self._indexes / name, iter([npy_header(index.dtype, index.shape), index.tobytes()])
            )
            open_path.replace(self.shards / name)
            sync_directory(self.shards)
            open_path.with_suffix(".json").unlink(missing_ok=True)

    def _save_if_due(self) -> None:
        """Flush the open part to the disk and record its entries, if the last time is long ago."""
        if self._file is None or time.monotonic() - self._saved < SAVE_SECONDS:
            return
        open_path = Path(str(self._file.name))
        with writing(open_path, resumable=True):
            record_bytes = 0
            if self._record_file is not None:
                self._record_file.flush()
                os.fsync(self._record_file.fileno())
                record_bytes = self._record_file.tell()
            os.fsync(self._file.fileno())
            saved = {"num_tokens": self._lengths.tolist(), "record_bytes": record_bytes}
            write_whole(open_path.with_suffix(".json"), [json.dumps(saved).encode()])
        self._saved = time.monotonic()

    def _take_up_saved(self) -> None:
        """Continue the open part of a killed run from where it was saved."""
        open_path = self._directory / f"open-{self.num_closed:05d}.npy"
        saved_path = open_path.with_suffix(".json")
        if not (saved_path.exists() and open_path.exists()):
            return
        saved = json.loads(saved_path.read_bytes())
        lengths = array("q", saved["num_tokens"])
        self._file = io.FileIO(open_path, "r+")
        self._file.truncate(self._header + sum(lengths) * self.layout.row_bytes)
        if self._records is not None:
            records = open_path.with_suffix(".jsonl")
            os.truncate(records, saved["record_bytes"])
            self._record_file = records.open("ab")
        self._lengths, self._rows = lengths, sum(lengths)

    def _open_next(self) -> None:
        """Start a part; its file is created with its first entry."""
        self._saved = time.monotonic()
        self._file = None
        self._record_file = None
        self._lengths = array("q")
        self._rows = 0

    def _reserve(self, lengths: Iterable[int], num_tokens: int, records: Iterable[bytes]) -> Entry:
        """Return space in the open part for entries of these lengths, `num_tokens` in total."""
        open_path = self._directory / f"open-{self.num_closed:05d}.npy"
        with writing(open_path, resumable=True):
            if self._file is None:
                self._file = io.FileIO(open_path, "w+")
            if self._records is not None:
                if self._record_file is None:
                    self._record_file = open_path.with_suffix(".jsonl").open("wb")
                self._record_file.writelines(record + b"\n" for record in records)
            offset = self._header + self._rows * self.layout.row_bytes
            self._file.truncate(offset + num_tokens * self.layout.row_bytes)
        self._lengths.extend(lengths)
        self._rows += num_tokens
        return Entry(self._file, offset, self.layout, num_tokens)
