"""Vectors as one parquet file: a row per entry.

    id            int64, the line number
    first_token   int64, 0
    num_tokens    int64
    vectors       list of float32 or float16: the entry, (L+1, T, D) or (T, D), flattened
    crc32         uint32, the checksum of the whole entry, see `checksums`

Writing a row takes some 20 bytes of memory per number. An entry of more than `MAX_ROW_VALUES`
numbers (1,365 tokens of three layers of 1024) is therefore split along its tokens into several rows
of the same `id`, with increasing `first_token`. The metadata is JSON in the file's metadata, key
`elmox`. Needs pyarrow.

A folder of parts (see `shards`) holds such files, `part-00002-of-00016.parquet`. Their ids continue
from part to part.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from elmox.errors import ElmoxError, UnreadableFile
from elmox.io.files import sync_file
from elmox.io.parquet import load_pyarrow, open_parquet
from elmox.vectors.checksums import add_entry, compare, damaged, finished
from elmox.vectors.layout import (
    CHECKSUM_KEY,
    FIRST_KEY,
    IDENTITY_KEY,
    Array,
    Layout,
    read_meta,
)
from elmox.vectors.parts import Parts

MAX_ROW_VALUES = 1 << 22
_GROUP_VALUES = 1 << 20
_GROUP_ROWS = 1 << 14
_METADATA_KEY = b"elmox"
_PART_NAME = re.compile(r"part-\d{5,}-of-\d{5,}\.parquet")

Row = tuple[int, int, int, Array, int]


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Write the entries of all parts into one file."""
    write_rows(_rows(parts, meta.get(FIRST_KEY, 0)), parts.layout, meta, target)


def write_rows(rows: Iterator[Row], layout: Layout, meta: dict[str, Any], target: Path) -> None:
    """Write rows into one file, a row group at a time."""
    pa = load_pyarrow()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("first_token", pa.int64()),
            ("num_tokens", pa.int64()),
            ("vectors", pa.large_list(pa.from_numpy_dtype(layout.numpy_dtype))),
            (CHECKSUM_KEY, pa.uint32()),
        ],
        metadata={_METADATA_KEY: json.dumps(meta).encode()},
    )
    # Compression and dictionaries gain nothing on such numbers. The ids need statistics because the
    # reader selects row groups by them.
    with pa.parquet.ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=["id"]
    ) as writer:
        for group in _row_groups(rows):
            ids, first_tokens, num_tokens, vectors, checksums = zip(*group, strict=True)
            offsets = np.cumsum([0, *(piece.size for piece in vectors)])
            lists = pa.LargeListArray.from_arrays(offsets, pa.array(np.concatenate(vectors)))
            columns = [pa.array(ids), pa.array(first_tokens), pa.array(num_tokens), lists]
            columns.append(pa.array(checksums, pa.uint32()))
            writer.write_table(pa.table(columns, schema=schema))
    sync_file(target)


def read_rows(path: Path, layout: Layout) -> Iterator[Row]:
    """Yield the rows of a file of vectors as they were given to `write_rows`.

    Raises:
        UnreadableFile: an entry, whose rows were yielded already, has another checksum.
    """
    for i, rows in groupby(_stored_rows(path), key=itemgetter(0)):
        checksum = total = 0
        for row in rows:
            _, first, num, flat, expected = row
            if first != total or flat.size != num * layout.row_values:
                raise damaged(path, i)
            checksum = add_entry(checksum, flat.reshape(layout.shape(num)), layout)
            total += num
            yield row
        if finished(checksum, i, total, layout) != expected:
            raise damaged(path, i)


def _stored_rows(path: Path) -> Iterator[Row]:
    with _errors(path), open_parquet(path) as file:
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group)
            names = ("id", "first_token", "num_tokens", CHECKSUM_KEY)
            ids, firsts, nums, checksums = (table.column(name).to_pylist() for name in names)
            vectors = table.column("vectors").combine_chunks()
            flat, offsets = vectors.flatten().to_numpy(), vectors.offsets.to_numpy()
            pieces = (flat[start:end] for start, end in pairwise((offsets - offsets[0]).tolist()))
            yield from zip(ids, firsts, nums, pieces, checksums, strict=True)


def tokens_of_entries(path: Path) -> dict[int, int]:
    """Return the number of tokens of each entry of a file by its id."""
    counts: dict[int, int] = {}
    with _errors(path), open_parquet(path) as file:
        table = file.read(columns=["id", "num_tokens"])
    for i, num_tokens in zip(*(column.to_pylist() for column in table.columns), strict=True):
        counts[i] = counts.get(i, 0) + num_tokens
    return counts


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises on a damaged file into an `UnreadableFile`."""
    try:
        yield
    except ElmoxError:
        raise
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UnreadableFile(
            f"{path} is damaged, or from another version of elmox ({error}): make it again"
        ) from error


def _rows(parts: Parts, first_id: int) -> Iterator[Row]:
    """Yield the rows of all entries: id, first token, number of tokens, flat vectors."""
    max_bytes = MAX_ROW_VALUES * parts.layout.numpy_dtype.itemsize
    for i, entry in enumerate(parts, start=first_id):
        for window in entry.windows(max_bytes) or [slice(0, 0)]:
            flat = entry[..., window, :].reshape(-1)
            yield i, window.start, window.stop - window.start, flat, entry.checksum


def _row_groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Collect rows into row groups."""
    group: list[Row] = []
    values = 0
    for row in rows:
        group.append(row)
        values += row[3].size
        if values >= _GROUP_VALUES or len(group) >= _GROUP_ROWS:
            yield group
            group, values = [], 0
    if group:
        yield group


def _entry(flat: Array, layout: Layout) -> Array:
    """Restore the shape of a row's flat numbers."""
    return flat.reshape(layout.shape(flat.size // layout.row_values))


def part_name(number: int, num_parts: int) -> str:
    """Return the name of a file in a folder of parts."""
    return f"part-{number:05d}-of-{num_parts:05d}.parquet"


def part_paths(folder: Path) -> list[Path]:
    """Return the files of a folder of parts, in order; an empty list if it is not one."""
    return sorted(path for path in folder.iterdir() if _PART_NAME.fullmatch(path.name))


def open_source(path: Path, verify: bool = True) -> "ParquetSource | PartsSource":
    """Open a file, or a folder of parts."""
    return PartsSource(path, verify) if path.is_dir() else ParquetSource(path, verify)


class PartsSource:
    """Reads a folder of parts; the last one read stays open."""

    def __init__(self, folder: Path, verify: bool = True) -> None:
        """Check that no part is missing, and read the number of entries of each."""
        self._verify = verify
        paths = part_paths(folder)
        names = [part_name(number, len(paths)) for number in range(len(paths))]
        if [path.name for path in paths] != names:
            raise ElmoxError(f"{folder}: some parts are missing: embed the missing shards")
        self._paths, self._firsts, self.num_entries = paths, [], 0
        num_tokens = 0
        for path in paths:
            with closing(ParquetSource(path, verify)) as part:
                self._firsts.append(self.num_entries)
                self.num_entries += part.num_entries
                num_tokens += part.meta["num_tokens"]
                self.meta = part.meta
        left_out = (FIRST_KEY, IDENTITY_KEY, CHECKSUM_KEY)
        self.meta = {key: value for key, value in self.meta.items() if key not in left_out}
        self.meta.update(num_entries=self.num_entries, num_tokens=num_tokens)
        self._open: tuple[int, ParquetSource] | None = None

    def read(self, i: int) -> Array:
        """Return entry `i`."""
        number = bisect_right(self._firsts, i) - 1
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = number, ParquetSource(self._paths[number], self._verify)
        return self._open[1].read(i - self._firsts[number])

    def close(self) -> None:
        """Close the open part."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


class ParquetSource:
    """Reads a parquet file of vectors by row groups; the last one read is cached."""

    def __init__(self, path: Path, verify: bool = True) -> None:
        """Read the metadata and the ids of each row group.

        Args:
            path: the file.
            verify: compare checksums, if there are any.
        """
        self._path = path
        self._file = open_parquet(path)
        self._cached: tuple[int, Array, list[Any]] | None = None
        self._columns = ["id", "vectors"]
        try:
            with _errors(path):
                self._read_description(verify)
        except ElmoxError:
            self._file.close()
            raise

    def _read_description(self, verify: bool) -> None:
        about = (self._file.schema_arrow.metadata or {}).get(_METADATA_KEY)
        if about is None:
            raise ElmoxError(
                f"{self._path}: a parquet file without vectors: expected one of elmox's"
            )
        self.meta, self._layout = read_meta(about, self._path, verify)
        self.num_entries: int = self.meta["num_entries"]
        self._first_id: int = self.meta.get(FIRST_KEY, 0)
        if verify and CHECKSUM_KEY in self.meta:
            self._columns.append(CHECKSUM_KEY)
        groups = range(self._file.metadata.num_row_groups)
        statistics = [self._file.metadata.row_group(g).column(0).statistics for g in groups]
        self._first_ids = [s.min for s in statistics]
        self._last_ids = [s.max for s in statistics]

    def read(self, i: int) -> Array:
        """Return entry `i`: the row of that id, or its rows concatenated."""
        with _errors(self._path):
            return self._read(i + self._first_id)

    def _read(self, i: int) -> Array:
        pieces, expected = [], None
        groups = range(bisect_left(self._last_ids, i), bisect_right(self._first_ids, i))
        for group in groups:
            ids, (vectors, *checksums) = self._group(group)
            for row in range(int(np.searchsorted(ids, i)), int(np.searchsorted(ids, i, "right"))):
                pieces.append(_entry(vectors[row].values.to_numpy(), self._layout))
                expected = checksums[0][row].as_py() if checksums else None
        if not pieces:
            raise ElmoxError(
                f"{self._path}: no row has id {i}: the file was changed, write it again"
            )
        entry = pieces[0].copy() if len(pieces) == 1 else np.concatenate(pieces, axis=-2)
        if CHECKSUM_KEY in self._columns:
            compare(self._path, i, entry, self._layout, expected)
        return entry

    def close(self) -> None:
        """Close the file."""
        self._cached = None
        self._file.close()

    def _group(self, group: int) -> tuple[Array, list[Any]]:
        """Return the ids of a row group, and its other columns."""
        if self._cached is None or self._cached[0] != group:
            table = self._file.read_row_group(group, columns=self._columns)
            ids, *others = (table.column(name) for name in self._columns)
            self._cached = (group, ids.to_numpy(), others)
        return self._cached[1:]
