"""Checksums of entries of vectors: damage is an error when an entry is read, not other numbers.

Every entry has a CRC-32: of its values in the order of a shard, (T, L+1, D), then of its number and
shape, so that an entry in another one's place is found too. It is computed when a part is closed
and copied with the entry into the output. An entry can be checked alone, because outputs are larger
than memory and are read in any order.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmox.errors import ElmoxError, UnreadableFile
from elmox.vectors.layout import Array, Layout

CHECKSUM_DTYPE = np.dtype("<u4")
_WINDOW_BYTES = 1 << 18  # a copy of this size stays in the cache of a core


def add_rows(checksum: int, rows: Array) -> int:
    """Continue the checksum of an entry, 0 at first, with its next tokens, (n, L+1, D)."""
    return zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data, checksum)


def add_entry(checksum: int, entry: Array, layout: Layout) -> int:
    """Continue the checksum of an entry with its next tokens, (L+1, n, D) or (n, D)."""
    for window in layout.windows(entry.shape[-2], _WINDOW_BYTES):
        checksum = add_rows(checksum, np.moveaxis(entry[..., window, :], -2, 0))
    return checksum


def finished(checksum: int, number: int, num_tokens: int, layout: Layout) -> int:
    """Return the checksum of an entry from that of all its tokens."""
    place = f"{number} {layout.shape(num_tokens)} {layout.dtype}"
    return zlib.crc32(place.encode(), checksum)


def compare(path: Path, number: int, entry: Array, layout: Layout, expected: int | None) -> None:
    """Raise an `UnreadableFile` if an entry has another checksum than when it was written."""
    num_tokens = entry.shape[-2] if entry.ndim >= 2 else 0
    is_same = entry.shape == layout.shape(num_tokens) and entry.dtype == layout.numpy_dtype
    if is_same:
        checksum = add_entry(0, entry, layout)
        is_same = finished(checksum, number, num_tokens, layout) == expected
    if not is_same:
        raise damaged(path, number)


def damaged(path: Path, number: int) -> UnreadableFile:
    """Return the error of an entry with another checksum."""
    return UnreadableFile(
        f"{path}: entry {number} has another checksum than when it was written: copy the vectors "
        "again, or make them again"
    )


def require_number_of(checksums: Sequence[int] | Array, num_entries: int, path: Path) -> None:
    """Refuse an output that does not have a checksum per entry."""
    if len(checksums) != num_entries:
        raise ElmoxError(
            f"{path} has {len(checksums)} checksums of {num_entries} entries: it is damaged, make "
            "the vectors again"
        )
