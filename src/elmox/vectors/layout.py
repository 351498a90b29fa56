"""The layout of an entry of vectors in memory and on disk.

Shapes: L+1 layers (`num_layers`), T tokens, D dimensions (`dim`). In memory an entry is
(L+1, T, D), or (T, D) when a single layer was kept. On disk the token axis comes first,
(T, L+1, D), so that entries follow each other in one array and each is a contiguous slice of it.
"""

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from elmox.errors import ElmoxError, UnreadableFile

Array = npt.NDArray[Any]
DType = Literal["float32", "float16"]

META_KEY = "elmox_vectors"
META_VERSION = 1
IDENTITY_KEY = "job"
FIRST_KEY = "first_entry"  # the number of the first entry in the whole output, in a part of one
CHECKSUM_KEY = "crc32"  # of the other metadata; where it is, every entry has a checksum too
_KEYS = {
    META_KEY, IDENTITY_KEY, FIRST_KEY, CHECKSUM_KEY,
    "num_entries", "num_tokens", "num_layers", "dim", "dtype", "about",
}  # fmt: skip


class Source(Protocol):
    """The reader that each format implements; `vectors.files.Vectors` adds the indexing."""

    meta: dict[str, Any]
    num_entries: int

    def read(self, i: int) -> Array:
        """Return entry `i`, 0 <= i < num_entries."""

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True)
class Layout:
    """The shape and type that all entries of one output share.

    Attributes:
        num_layers: L+1, or None when an entry is (T, D).
        dim: D.
        dtype: data type on disk (always little-endian).
    """

    num_layers: int | None
    dim: int
    dtype: DType

    def __post_init__(self) -> None:
        """Refuse values that no reader accepts."""
        if self.dtype not in get_args(DType):
            raise ElmoxError(f"dtype {self.dtype!r}: expected one of {get_args(DType)}")
        if self.dim < 1 or (self.num_layers is not None and self.num_layers < 1):
            raise ElmoxError(
                f"{self.num_layers} layers of {self.dim} dimensions: expected at least one of each"
            )

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype with its byte order fixed."""
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one token on disk: (L+1, D) or (D,)."""
        return (self.dim,) if self.num_layers is None else (self.num_layers, self.dim)

    @property
    def row_values(self) -> int:
        """Number of values of one token."""
        return math.prod(self.row_shape)

    @property
    def row_bytes(self) -> int:
        """Number of bytes of one token on disk."""
        return self.row_values * self.numpy_dtype.itemsize

    def shape(self, num_tokens: int) -> tuple[int, ...]:
        """Return the shape of an entry in memory: (L+1, T, D) or (T, D)."""
        return (*self.row_shape[:-1], num_tokens, self.dim)

    def entry(self, rows: Array) -> Array:
        """Return rows on disk, (T, L+1, D), as an entry, (L+1, T, D), without copying."""
        return np.moveaxis(rows, 0, -2)

    def windows(self, num_tokens: int, max_bytes: int) -> list[slice]:
        """Split the token axis into windows of at most `max_bytes` (at least one token)."""
        step = max(1, max_bytes // self.row_bytes)
        return [slice(a, min(a + step, num_tokens)) for a in range(0, num_tokens, step)]

    def meta(
        self,
        num_entries: int,
        num_tokens: int,
        about: Mapping[str, Any],
        identity: str | None,
        first_entry: int | None = None,
    ) -> dict[str, Any]:
        """Return the metadata that every format stores.

        Args:
            num_entries, num_tokens: of the output.
            about: the writer's description.
            identity: digest of the job, by which a later run recognizes that it is done.
            first_entry: the number of the first entry, if the output is a part of another.
        """
        meta: dict[str, Any] = {
            META_KEY: META_VERSION,
            "num_entries": num_entries,
            "num_tokens": num_tokens,
            "num_layers": self.num_layers,
            "dim": self.dim,
            "dtype": self.dtype,
            "about": dict(about),
        }
        if identity is not None:
            meta[IDENTITY_KEY] = identity
        if first_entry is not None:
            meta[FIRST_KEY] = first_entry
        return {**meta, CHECKSUM_KEY: _checksum(meta)}


def _checksum(meta: Mapping[str, Any]) -> str:
    """Return the checksum of metadata, as eight hexadecimal digits."""
    return f"{zlib.crc32(json.dumps(meta, sort_keys=True).encode()):08x}"


def read_meta(text: str | bytes, path: Path, verify: bool = True) -> tuple[dict[str, Any], Layout]:
    """Parse the metadata that `Layout.meta` returns.

    Args:
        text: the metadata as JSON.
        path: for error messages.
        verify: compare it with its checksum, if it has one.
    """
    try:
        meta = json.loads(text)
        version = meta[META_KEY]
        layout = Layout(meta["num_layers"], meta["dim"], meta["dtype"])
    except (ValueError, KeyError, TypeError) as error:
        raise ElmoxError(
            f"{path}: its metadata is damaged ({error}): make the vectors again"
        ) from error
    if version != META_VERSION:
        raise ElmoxError(
            f"{path}: vectors of format {version}, this elmox reads {META_VERSION}: update elmox"
        )
    others = {key: value for key, value in meta.items() if key != CHECKSUM_KEY}
    if verify and (
        meta[CHECKSUM_KEY] != _checksum(others) if CHECKSUM_KEY in meta else meta.keys() - _KEYS
    ):
        raise UnreadableFile(
            f"{path}: its metadata has another checksum than when it was written: copy the vectors "
            "again, or make them again"
        )
    return cast(dict[str, Any], meta), layout
