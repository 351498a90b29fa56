"""The one opener of text: UTF-8, plain or compressed, from a file or from stdin.

The suffix of a file's name determines its compression: .gz, .xz, .bz2, .zst or none. The name `-`
is stdin. Whatever is wrong with a file is an `UnreadableFile` that names it, when it is opened or
when the damaged part of it is read.
"""

import bz2
import codecs
import gzip
import lzma
import sys
import zlib
from contextlib import ExitStack
from io import BufferedIOBase, BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO, cast

from elmox.errors import UnreadableFile
from elmox.io.inputs import require_text_file
from elmox.io.zstd_file import open_zstd

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN = "-"
COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")

_BUFFER_BYTES = 2**17


def open_text(path: str | Path, newline: str | None = None) -> TextIO:
    """Open a text for reading, line by line or as a whole, without its byte order mark.

    Args:
        path: a file, perhaps compressed, or `-` for stdin.
        newline: as in `open`: None reads every kind of line end as a newline, "" keeps them as they
            are, and after "\\n" only that ends a line.

    Raises:
        UnreadableFile: here or while reading. Where a byte is not UTF-8, the message has its line.
    """
    reader = BufferedReader(_Utf8Source(path), _BUFFER_BYTES)
    return TextIOWrapper(reader, encoding="utf-8-sig", newline=newline)


def open_text_at(path: str | Path, start: int, line: int) -> TextIO:
    """Open a text at the beginning of one of its lines, for reading line by line.

    Only "\\n" ends a line, and a byte order mark is part of the first one.

    Args:
        path: a file, perhaps compressed, or `-` for stdin.
        start: the position of the line in bytes, after decompression.
        line: number of lines before it, for error messages.
    """
    source = _Utf8Source(path, start, line)
    return TextIOWrapper(BufferedReader(source, _BUFFER_BYTES), encoding="utf-8", newline="\n")


def open_bytes(path: str | Path) -> "ByteReader":
    """Open the same as bytes, decompressed and otherwise unchanged."""
    return ByteReader(path)


def check_text(path: str | Path) -> None:
    """Refuse a text that cannot be opened, before any work is done.

    Raises:
        UnreadableFile: it does not exist, is a directory or a device, or stdin is closed.
    """
    if str(path) != STDIN:
        require_text_file(path)
    elif sys.stdin is None:
        raise UnreadableFile("stdin is closed: pipe text into it, or give a text file")


def text_name(path: str | Path) -> str:
    """Return the name of a text for error messages."""
    return "stdin" if str(path) == STDIN else str(path)


def text_suffix(path: str | Path) -> str:
    """Return the suffix of a file's name in lower case, without that of its compression."""
    name = Path(path).name.lower()
    for suffix in COMPRESSIONS:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def not_utf8(path: str | Path, line: int, column: int, byte: int) -> UnreadableFile:
    """Return the error for a byte that is not UTF-8; `line` and `column` are counted from 1."""
    return UnreadableFile(
        f"{text_name(path)}, line {line}: byte {column} is not UTF-8 (0x{byte:02x}): convert the "
        "text to UTF-8 first"
    )


class ByteReader(BufferedReader):
    """The decompressed bytes of a text."""

    def __init__(self, path: str | Path) -> None:
        """Open a file, or stdin for `-`."""
        self._source = _Source(path)
        super().__init__(self._source, _BUFFER_BYTES)

    @property
    def num_bytes_read(self) -> int:
        """Bytes read from the disk so far, before decompression; 0 for stdin and pipes."""
        return self._source.position


class _Source(RawIOBase):
    """The decompressed bytes of a text; its errors name it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._files = ExitStack()
        self._path = path
        self._stored: IO[bytes] | None = None  # the file, compressed or not; None for stdin
        check_text(path)
        if str(path) == STDIN:
            self._content = cast(BufferedIOBase, sys.stdin.buffer)
            return
        try:
            self._stored = self._files.enter_context(open(path, "rb"))  # noqa: SIM115
            self._content = self._files.enter_context(_decompressed(path, self._stored))
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def position(self) -> int:
        """The position in the file on disk; 0 where there is none."""
        if self._stored is None or not self._stored.seekable():
            return 0
        return self._stored.tell()

    def readable(self) -> bool:
        return True

    def skip(self, num_bytes: int) -> None:
        """Skip the first bytes; those of a compressed file have to be read."""
        if Path(self._path).suffix.lower() not in COMPRESSIONS and self._content.seekable():
            self._content.seek(num_bytes)
            return
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        while num_bytes and (count := _Source.readinto(self, buffer[:num_bytes])):
            num_bytes -= count

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        try:
            count = self._content.readinto1(buffer)
            if count == 0 and self._is_empty():
                raise EOFError("it is empty")
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise self._damaged(error) from error
        except OSError as error:
            if error.errno is None:  # raised by gzip and bz2, not by the system
                raise self._damaged(error) from error
            raise self._unreadable(error) from error
        return count

    def close(self) -> None:
        self._files.close()
        super().close()

    def _is_empty(self) -> bool:
        """Return whether this is a compressed file of no bytes, which gzip and zstd let pass."""
        stored = self._stored
        if stored is None or Path(self._path).suffix.lower() not in COMPRESSIONS:
            return False
        return stored.seekable() and stored.tell() == 0

    def _damaged(self, error: Exception) -> UnreadableFile:
        suffix = Path(self._path).suffix
        return UnreadableFile(f"{self._path} is damaged or not a {suffix} file: {error}")

    def _unreadable(self, error: OSError) -> UnreadableFile:
        reason = error.strerror or error
        return UnreadableFile(f"{text_name(self._path)} cannot be read: {reason}")


class _Utf8Source(_Source):
    """The same for UTF-8: what precedes a bad byte can be read, the byte itself is an error."""

    def __init__(self, path: str | Path, start: int = 0, line: int = 0) -> None:
        super().__init__(path)
        if start:
            self.skip(start)
        self._line = line + 1
        self._column = 1
        self._pending = b""  # at that position: the first bytes of an incomplete character
        self._error: UnreadableFile | None = None

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        if self._error is not None:
            raise self._error
        count = super().readinto(buffer)
        data = self._pending + memoryview(buffer)[:count]
        try:
            _, num_valid = codecs.utf_8_decode(data, "strict", count == 0)
        except UnicodeDecodeError as error:
            self._advance(data[: error.start])
            self._error = not_utf8(self._path, self._line, self._column, data[error.start])
            count = error.start - len(self._pending)
            if count <= 0:
                raise self._error from error
            return count
        self._advance(data[:num_valid])
        self._pending = data[num_valid:]
        return count

    def _advance(self, data: bytes) -> None:
        self._line += data.count(b"\n")
        newline = data.rfind(b"\n")
        self._column = len(data) - newline if newline >= 0 else self._column + len(data)


def _decompressed(path: str | Path, stored: IO[bytes]) -> BufferedIOBase:
    match Path(path).suffix.lower():
        case ".gz":
            return gzip.GzipFile(fileobj=stored)
        case ".xz":
            return lzma.LZMAFile(stored)
        case ".bz2":
            return bz2.BZ2File(stored)
        case ".zst":
            return open_zstd(str(path), stored)
    return cast(BufferedIOBase, stored)
