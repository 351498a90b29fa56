"""The table format of LevelDB, which TensorFlow uses for the index of a checkpoint.

    data blocks | metaindex block | index block | footer of 48 bytes

A block has entries (bytes shared with the key before, further bytes of the key, bytes of the value;
both), the offsets at which a key is written in full, and their number; then its compression and a
checksum. The index block has the position of every data block. An index is a few kilobytes, so it
is read whole, and every length in it is compared with what is there.
"""

import struct
from collections.abc import Iterator

from elmox.io.crc32c import crc32c

MAX_ENTRIES = 10_000  # the largest model has a hundred variables, four times that with an optimizer
MAX_KEY_BYTES = 1024

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
_MASK_DELTA = 0xA282EAD8


class DamagedTable(Exception):
    """Damage to a table, or to a message in it."""


def read_table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values, in the order of the keys.

    Raises:
        DamagedTable: anything but a complete, uncompressed table.
    """
    ends = len(content) >= _FOOTER_BYTES and content.endswith(_MAGIC)
    require(ends, "it does not end as an index does: it is cut short or no index")
    footer = content[-_FOOTER_BYTES:-8]
    _, _, at = _handle(footer, 0)  # the metaindex, which has nothing for us
    offset, size, _ = _handle(footer, at)
    last: bytes | None = None
    number = 0
    for _, value in _entries(_block(content, offset, size)):
        offset, size, _ = _handle(value, 0)
        for key, entry in _entries(_block(content, offset, size)):
            number += 1
            require(number <= MAX_ENTRIES, f"it has over {MAX_ENTRIES:,} entries")
            require(last is None or key > last, "its names are not in order")
            last = key
            yield key, entry


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, the lowest first; return it and where it ends."""
    value = 0
    for place, byte in enumerate(content[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            require(value < 2**64, "it has a number of over 64 bits")
            return value, at + place + 1
    raise DamagedTable("a number in it has no end")


def matches(content: bytes | bytearray | memoryview, stored: int) -> bool:
    """Return whether bytes have a stored checksum, which is rotated and moved by a constant."""
    checksum = crc32c(content)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return (rotated + _MASK_DELTA) & 0xFFFFFFFF == stored


def require(condition: bool, reason: str) -> None:
    """Raise `DamagedTable` unless the condition holds."""
    if not condition:
        raise DamagedTable(reason)


def _handle(content: bytes, at: int) -> tuple[int, int, int]:
    """Read the position and the size of a block; return them and where they end."""
    offset, at = varint(content, at)
    size, at = varint(content, at)
    return offset, size, at


def _block(content: bytes, offset: int, size: int) -> bytes:
    """Return a block's entries and restarts, after comparing its checksum."""
    end = offset + size
    require(end + _TRAILER_BYTES <= len(content) - _FOOTER_BYTES, "a block is beyond its end")
    stored = int.from_bytes(content[end + 1 : end + _TRAILER_BYTES], "little")
    require(matches(content[offset : end + 1], stored), "a block's checksum does not match")
    require(content[end] == 0, "a block is compressed, which TensorFlow's checkpoints are not")
    return content[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    require(len(block) >= 4, "a block is too short")
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    require(end >= 0, "a block is too short")
    at, key = 0, b""
    while at < end:
        shared, at = varint(block, at)
        unshared, at = varint(block, at)
        value_bytes, at = varint(block, at)
        require(shared <= len(key), "a name shares more than the one before it has")
        require(shared + unshared <= MAX_KEY_BYTES, f"a name has over {MAX_KEY_BYTES:,} bytes")
        require(at + unshared + value_bytes <= end, "an entry is longer than its block")
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + value_bytes]
        at += value_bytes
