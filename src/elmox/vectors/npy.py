"""Vectors as a directory of .npy shards: the closed parts themselves, one index and `meta.json`.

    meta.json         the metadata, see `Layout.meta`
    index.npy         (number of entries, 3) int64: shard, first token, number of tokens
    checksums.npy     (number of entries,) uint32, see `checksums`
    shard-00000.npy   (tokens, L+1, D), or (tokens, D) when a single layer was kept

Other programs need only `numpy.load`: entry i is `shard[first : first + number]`.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from elmox.errors import ElmoxError
from elmox.io.files import write_whole
from elmox.io.inputs import MAX_JSON_BYTES, read_whole, require_regular
from elmox.vectors.checksums import CHECKSUM_DTYPE, compare, require_number_of
from elmox.vectors.layout import CHECKSUM_KEY, Array, read_meta
from elmox.vectors.parts import Parts, npy_header, shard_name

_FILE_NAMES = re.compile(r"shard-\d{5,}\.npy|index\.npy|checksums\.npy|meta\.json")
_OPEN_SHARDS = 8


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Complete the directory of shards with its index and description."""
    assert target == parts.shards
    write_whole(target / "index.npy", _index_chunks(parts))
    write_whole(target / "checksums.npy", _checksum_chunks(parts))
    write_whole(target / "meta.json", iter([json.dumps(meta, indent=2).encode(), b"\n"]))


def holds_only_vectors(directory: Path) -> bool:
    """Return whether `directory` holds only files of this format; an empty one does."""
    return all(_FILE_NAMES.fullmatch(path.name) for path in directory.iterdir())


def _index_chunks(parts: Parts) -> Iterator[bytes]:
    """Yield the bytes of index.npy, part by part."""
    yield npy_header(np.dtype("<i8"), (parts.num_entries, 3))
    for index in parts.indexes():
        yield index[:, :3].tobytes()


def _checksum_chunks(parts: Parts) -> Iterator[bytes]:
    """Yield the bytes of checksums.npy, part by part."""
    yield npy_header(CHECKSUM_DTYPE, (parts.num_entries,))
    for index in parts.indexes():
        yield index[:, 3].astype(CHECKSUM_DTYPE).tobytes()


class NpySource:
    """Reads a directory of npy shards; an entry is a read-only view of a memory-mapped shard."""

    def __init__(self, path: Path, verify: bool = True) -> None:
        """Open the index; shards are opened on access.

        Args:
            path: the directory.
            verify: compare checksums, if there are any.
        """
        text = read_whole(path / "meta.json", MAX_JSON_BYTES)
        self.meta, self._layout = read_meta(text, path, verify)
        self._index = _mapped(path / "index.npy", "make the vectors again")
        if self._index.shape[1:] != (3,) or self._index.dtype != np.int64:
            raise ElmoxError(
                f"{path}/index.npy has another shape or dtype than elmox writes: make the vectors "
                "again"
            )
        self.num_entries = len(self._index)
        self._path = path
        self._shard = lru_cache(_OPEN_SHARDS)(self._map_shard)
        self._checksums: Array | None = None
        if verify and CHECKSUM_KEY in self.meta:
            self._checksums = _mapped(path / "checksums.npy", "make the vectors again")
            require_number_of(self._checksums, self.num_entries, path)

    def read(self, i: int) -> Array:
        """Return entry `i`."""
        entry = self._read(i)
        if self._checksums is not None:
            compare(self._path, i, entry, self._layout, self._checksums[i])
        return entry

    def _read(self, i: int) -> Array:
        shard, start, num_tokens = self._index[i].tolist()
        if num_tokens == 0:  # its shard may be empty, and an empty file cannot be mapped
            return np.empty(self._layout.shape(0), self._layout.numpy_dtype)
        rows = self._shard(shard)
        if not 0 <= start <= start + num_tokens <= len(rows):
            raise ElmoxError(
                f"{self._path}: its index refers to tokens that shard {shard} does not have: make "
                "the vectors again"
            )
        return self._layout.entry(rows[start : start + num_tokens])

    def close(self) -> None:
        """Unmap the shards, except those that the caller's entries refer to."""
        self._shard.cache_clear()

    def _map_shard(self, number: int) -> Array:
        path = self._path / shard_name(number)
        rows = _mapped(path, f"copy or make {self._path} again")
        if rows.shape[1:] != self._layout.row_shape or rows.dtype != self._layout.numpy_dtype:
            raise ElmoxError(
                f"{path} has another shape or dtype than meta.json states: make the vectors again"
            )
        return rows


def _mapped(path: Path, advice: str) -> Array:
    """Map an array; NumPy's error messages, which recommend loading pickles, are replaced."""
    require_regular(path)
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    # NumPy parses the header as Python.
    except (
        OSError, ValueError, TypeError, EOFError, SyntaxError, TokenError, ArithmeticError,
        LookupError, MemoryError, RecursionError,
    ) as error:  # fmt: skip
        raise ElmoxError(
            f"{path} cannot be read, it is damaged or not an .npy file: {advice}"
        ) from error
    return np.asarray(array)
