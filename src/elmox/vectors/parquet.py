"""Vectors as one parquet file: a row per entry.

    id            int64, the line number
    first_token   int64, 0
    num_tokens    int64
    vectors       list of float32 or float16: the entry, (L+1, T, D) or (T, D), flattened

Writing a row takes some 20 bytes of memory per number. An entry of more than `MAX_ROW_VALUES`
numbers (1,365 tokens of three layers of 1024) is therefore split along its tokens into several rows
of the same `id`, with increasing `first_token`. The metadata is JSON in the file's metadata, key
`elmox`. Needs pyarrow.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from elmox.errors import ElmoxError, install_hint
from elmox.io.files import sync_file
from elmox.vectors.layout import Array, Layout, read_meta
from elmox.vectors.parts import Parts

MAX_ROW_VALUES = 1 << 22
_GROUP_VALUES = 1 << 20
_GROUP_ROWS = 1 << 14
_METADATA_KEY = b"elmox"

Row = tuple[int, int, int, Array]


def load_pyarrow() -> ModuleType:
    """Import pyarrow with its parquet module; the error explains how to install it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ElmoxError(
            f"parquet files need pyarrow: {install_hint('parquet')}, or write .hdf5"
        ) from error
    return cast(ModuleType, pyarrow)


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Write the entries of all parts into one file, a row group at a time."""
    pa = load_pyarrow()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("first_token", pa.int64()),
            ("num_tokens", pa.int64()),
            ("vectors", pa.large_list(pa.from_numpy_dtype(parts.layout.numpy_dtype))),
        ],
        metadata={_METADATA_KEY: json.dumps(meta).encode()},
    )
    # Compression and dictionaries gain nothing on such numbers. The ids need statistics because the
    # reader selects row groups by them.
    with pa.parquet.ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=["id"]
    ) as writer:
        for rows in _row_groups(_rows(parts)):
            ids, first_tokens, num_tokens, vectors = zip(*rows, strict=True)
            offsets = np.cumsum([0, *(piece.size for piece in vectors)])
            lists = pa.LargeListArray.from_arrays(offsets, pa.array(np.concatenate(vectors)))
            columns = [pa.array(ids), pa.array(first_tokens), pa.array(num_tokens), lists]
            writer.write_table(pa.table(columns, schema=schema))
    sync_file(target)


def _rows(parts: Parts) -> Iterator[Row]:
    """Yield the rows of all entries: id, first token, number of tokens, flat vectors."""
    max_bytes = MAX_ROW_VALUES * parts.layout.numpy_dtype.itemsize
    for i, entry in enumerate(parts):
        for window in entry.windows(max_bytes) or [slice(0, 0)]:
            flat = entry[..., window, :].reshape(-1)
            yield i, window.start, window.stop - window.start, flat


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


class ParquetSource:
    """Reads a parquet file of vectors by row groups; the last one read is cached."""

    def __init__(self, path: Path) -> None:
        """Read the metadata and the ids of each row group."""
        pa = load_pyarrow()
        try:
            self._file = pa.parquet.ParquetFile(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise ElmoxError(f"{path}: cannot read this parquet file ({error})") from error
        about = (self._file.schema_arrow.metadata or {}).get(_METADATA_KEY)
        if about is None:
            self._file.close()
            raise ElmoxError(f"{path}: a parquet file without vectors: expected one of elmox's")
        self.meta, self._layout = read_meta(about, path)
        self.num_entries: int = self.meta["num_entries"]
        self._path = path
        groups = range(self._file.metadata.num_row_groups)
        statistics = [self._file.metadata.row_group(g).column(0).statistics for g in groups]
        self._first_ids = [s.min for s in statistics]
        self._last_ids = [s.max for s in statistics]
        self._cached: tuple[int, Array, Any] | None = None

    def read(self, i: int) -> Array:
        """Return entry `i`: the row of that id, or its rows concatenated."""
        pieces = []
        groups = range(bisect_left(self._last_ids, i), bisect_right(self._first_ids, i))
        for group in groups:
            ids, vectors = self._group(group)
            for row in range(int(np.searchsorted(ids, i)), int(np.searchsorted(ids, i, "right"))):
                pieces.append(_entry(vectors[row].values.to_numpy(), self._layout))
        if not pieces:
            raise ElmoxError(
                f"{self._path}: no row has id {i}: the file was changed, write it again"
            )
        return pieces[0].copy() if len(pieces) == 1 else np.concatenate(pieces, axis=-2)

    def close(self) -> None:
        """Close the file."""
        self._cached = None
        self._file.close()

    def _group(self, group: int) -> tuple[Array, Any]:
        """Return the ids and the vectors of a row group."""
        if self._cached is None or self._cached[0] != group:
            table = self._file.read_row_group(group, columns=["id", "vectors"])
            self._cached = (group, table.column("id").to_numpy(), table.column("vectors"))
        return self._cached[1:]
