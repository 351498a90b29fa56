"""Text to prepare: files, patterns and stdin, compressed or not, as blocks of whole lines.

Text is read once, from front to back, a block at a time: a file may be larger than the memory, and
stdin cannot be read again. How a file is compressed is told by its name: .gz, .xz, .bz2 or .zst.
"""

import bz2
import codecs
import glob
import gzip
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from elmox.errors import ElmoxError
from elmox.io.inputs import refuse_device
from elmox.io.zstd_file import open_zstd

STDIN = "-"
BLOCK_BYTES = 2**20
MAX_LINE_BYTES = 2**28

_JSON_LINES = re.compile(r"\.(jsonl|ndjson)(\.\w+)?$")


@dataclass(frozen=True)
class Source:
    """A file to read, or stdin.

    Attributes:
        path: its name, `-` for stdin.
        size: bytes on disk; None where that cannot be known (stdin, a pipe).
    """

    path: str
    size: int | None


@dataclass(frozen=True)
class Block:
    """Some lines of a file.

    Attributes:
        path: the file.
        first_line: the number of its first line, from 1.
        data: whole lines, as they are in the file but for a byte order mark.
        ends_file: whether the file ends here.
        position: bytes on disk that were read of the file so far.
    """

    path: str
    first_line: int
    data: bytes
    ends_file: bool
    position: int


def find_sources(names: Sequence[str]) -> list[Source]:
    """The files that names and patterns stand for; those of a pattern in the order of their names.

    Args:
        names: files, patterns such as `text/*.txt.gz` or `text/**/*.txt`, or `-` for stdin.
    """
    if list(names).count(STDIN) > 1:
        raise ElmoxError("- (stdin) is given twice, but it can be read only once")
    return [source for name in names for source in _find(name)]


def read_blocks(source: Source, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Cut a source into blocks of whole lines; an empty file gives one empty block.

    Args:
        source: what to read.
        block_bytes: about the size of a block; a line is never cut.
    """
    with _opened(source) as raw:
        plain = _decompressed(source.path, raw)
        pending: list[bytes] = []
        line = 1
        mark = codecs.BOM_UTF8
        chunk = _read(plain, max(block_bytes, len(mark)), source.path).removeprefix(mark)
        while following := _read(plain, block_bytes, source.path):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                data = b"".join([*pending, chunk[:cut]])
                yield Block(source.path, line, data, False, _position(source, raw))
                line += data.count(b"\n")
                pending = []
            pending.append(chunk[cut:])
            if sum(map(len, pending)) > MAX_LINE_BYTES:
                raise ElmoxError(
                    f"{source.path}, line {line}: longer than {MAX_LINE_BYTES // 2**20} MiB: is "
                    "it text, with a sentence or a paragraph per line?"
                )
            chunk = following
        data = b"".join([*pending, chunk])
        yield Block(source.path, line, data, True, _position(source, raw))


def _find(name: str) -> list[Source]:
    if name == STDIN:
        if sys.stdin is None:
            raise ElmoxError("stdin is closed: pipe text into it, or give a text file")
        return [Source(name, None)]
    if os.path.exists(name):
        return [_file(name)]
    if not glob.has_magic(name):
        raise ElmoxError(f"{name} does not exist: give a text file, a pattern, or - for stdin")
    found = sorted(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
    if not found:
        raise ElmoxError(f"{name} matches no file: give a text file, a pattern, or - for stdin")
    return [_file(path) for path in found]


def _file(name: str) -> Source:
    path = Path(name)
    if path.is_dir():
        raise ElmoxError(f"{name} is a directory, expected a text file or a pattern like {name}/*")
    refuse_device(path)
    if not os.access(path, os.R_OK):
        raise ElmoxError(f"{name} cannot be read: permission denied")
    if _JSON_LINES.search(name):
        raise ElmoxError(f"{name} is JSON lines, expected text: take the text out of it first")
    return Source(name, path.stat().st_size if path.is_file() else None)


@contextmanager
def _opened(source: Source) -> Iterator[IO[bytes]]:
    if source.path == STDIN:
        yield sys.stdin.buffer
        return
    with _reading(source.path):
        file = open(source.path, "rb")  # noqa: SIM115  (closed below)
    with file:
        yield file


def _decompressed(path: str, raw: IO[bytes]) -> "_Readable":
    """The plain text of an open file, by the ending of its name."""
    match Path(path).suffix.lower():
        case ".gz":
            return gzip.open(raw)
        case ".xz":
            return lzma.open(raw)
        case ".bz2":
            return bz2.open(raw)
        case ".zst":
            return open_zstd(path, raw)
    return raw


def _read(file: "_Readable", size: int, path: str) -> bytes:
    with _reading(path):
        return file.read(size)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ElmoxError(f"{path} is damaged or not a {Path(path).suffix} file: {error}") from error
    except OSError as error:  # also bz2's "Invalid data stream"
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error


def _position(source: Source, raw: IO[bytes]) -> int:
    return raw.tell() if source.size is not None else 0


class _Readable(Protocol):
    """All that is needed of an open file."""

    def read(self, size: int, /) -> bytes: ...
