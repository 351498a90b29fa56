"""The regular files of a tar stream, in bounded time and memory.

`tarfile` reads headers of any length into memory, searches them in quadratic time, and in older
Pythons loops on negative sizes. Archives of models need little: ustar headers, long names (GNU and
pax), sizes beyond 8 GiB. Links, devices and sparse files are skipped.
"""

from collections.abc import Iterator
from typing import Protocol

_BLOCK = 512
_PIECE = 2**20
_MAX_HEADER_BYTES = 2**20
_REGULAR = (b"0", b"\0", b"7")
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")  # links, devices, directories, pipes


class DamagedTar(Exception):
    """The stream is not a tar archive, or ends too soon."""


class Stream(Protocol):
    """The part of an open file that is needed here."""

    def read(self, size: int, /) -> bytes: ...


class TarMember:
    """An entry of the stream, readable until iteration goes on.

    Attributes:
        name: the path inside the archive.
        size: its number of bytes.
        is_regular: whether it is a file, not a link, a directory or a device.
    """

    def __init__(self, stream: Stream, name: str, size: int, is_regular: bool) -> None:
        self.name, self.size, self.is_regular = name, size, is_regular
        self._stream = stream
        self._left = size

    def read(self, size: int) -> bytes:
        """Return up to `size` more bytes; none at the end."""
        block = _exactly(self._stream, min(size, self._left))
        self._left -= len(block)
        return block

    def skip(self) -> None:
        """Skip the rest, and the padding after it."""
        while self.read(_PIECE):
            pass
        _exactly(self._stream, -self.size % _BLOCK)


def tar_members(stream: Stream) -> Iterator[TarMember]:
    """Yield the entries of a stream."""
    extended: dict[str, str] = {}  # long names and sizes from headers before an entry
    while header := stream.read(_BLOCK):
        header += _exactly(stream, _BLOCK - len(header))
        if not any(header):
            return
        _check_sum(header)
        kind, size = header[156:157], _number(header[124:136])
        if kind in (b"L", b"K", b"x", b"g"):
            if size > _MAX_HEADER_BYTES:
                raise DamagedTar(f"a header of {size:,} bytes")
            content = _exactly(stream, size)
            _exactly(stream, -size % _BLOCK)
            if kind == b"L":
                extended["path"] = _text(content)
            elif kind == b"x":
                extended |= _pax_records(content)
            continue
        if kind in _WITHOUT_DATA:
            size = 0
        elif "size" in extended:
            size = _decimal(extended["size"])
        name = extended.get("path") or _name(header)
        is_regular = (
            kind in _REGULAR and not name.endswith("/") and "GNU.sparse.major" not in extended
        )
        member = TarMember(stream, name, size, is_regular)
        yield member
        member.skip()
        extended = {}


def _exactly(stream: Stream, size: int) -> bytes:
    parts = []
    while size > 0:
        block = stream.read(min(size, _PIECE))
        if not block:
            raise DamagedTar("unexpected end")
        parts.append(block)
        size -= len(block)
    return b"".join(parts)


def _check_sum(header: bytes) -> None:
    """Compare the header with its checksum, whose own field counts as spaces."""
    expected = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    if _number(header[148:156]) != expected:
        raise DamagedTar("a header does not agree with its checksum")


def _number(field: bytes) -> int:
    """Read an octal number, or a binary one behind a set bit."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:])
    text = field.split(b"\0")[0].strip()
    try:
        return int(text or b"0", 8)
    except ValueError as error:
        raise DamagedTar("a field that is not a number") from error


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DamagedTar("a field that is not a number")
    return int(text)


def _name(header: bytes) -> str:
    name = _text(header[:100])
    has_prefix = header[257:263] == b"ustar\0"  # GNU has other fields there
    prefix = _text(header[345:500]) if has_prefix else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode("utf-8", "replace")


def _pax_records(content: bytes) -> dict[str, str]:
    """Read records `LENGTH KEY=VALUE` and a line end, each of the length that it declares."""
    records: dict[str, str] = {}
    start = 0
    while start < len(content):
        digits, _, _ = content[start : start + 8].partition(b" ")
        stop = start + _decimal(digits.decode("utf-8", "replace"))
        key, equals, value = content[start + len(digits) + 1 : stop].partition(b"=")
        if stop <= start + len(digits) + 1 or stop > len(content) or not equals:
            raise DamagedTar("a record of another length than it declares")
        records[key.decode("utf-8", "replace")] = value[:-1].decode("utf-8", "replace")
        start = stop
    return records
