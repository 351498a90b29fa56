"""Text to prepare: files, patterns and stdin as blocks of whole lines.

Text is read once, from front to back, one block at a time: a file may be larger than the memory,
and stdin cannot be read again.
"""

import codecs
import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.json_lines import is_json_lines
from elmox.io.text_files import STDIN, check_text, open_bytes

BLOCK_BYTES = 2**20
MAX_LINE_BYTES = 2**28


@dataclass(frozen=True)
class Source:
    """A file to read, or stdin.

    Attributes:
        path: its path, `-` for stdin.
        size: bytes on disk; None if unknown (stdin, a pipe).
    """

    path: str
    size: int | None


@dataclass(frozen=True)
class Block:
    """Consecutive lines of a file.

    Attributes:
        path: the file.
        first_line: the number of the first line, counted from 1.
        data: whole lines as in the file, except for a byte order mark.
        ends_file: whether the file ends here.
        position: bytes of the file that were read from disk so far.
    """

    path: str
    first_line: int
    data: bytes
    ends_file: bool
    position: int


def find_sources(names: Sequence[str]) -> list[Source]:
    """Return the files of names and patterns; those of a pattern are sorted by name.

    Args:
        names: files, patterns such as `text/*.txt.gz` or `text/**/*.txt`, or `-` for stdin.
    """
    if list(names).count(STDIN) > 1:
        raise ElmoxError("- (stdin) is given twice, but it can be read only once")
    return [source for name in names for source in _find(name)]


def read_blocks(source: Source, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield a source as blocks of whole lines; an empty file is one empty block.

    Args:
        source: the source to read.
        block_bytes: approximate size of a block; a line is never cut.
    """
    with open_bytes(source.path) as file:
        pending: list[bytes] = []
        line = 1
        mark = codecs.BOM_UTF8
        chunk = file.read(max(block_bytes, len(mark))).removeprefix(mark)
        while following := file.read(block_bytes):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                data = b"".join([*pending, chunk[:cut]])
                yield Block(source.path, line, data, False, file.num_bytes_read)
                line += data.count(b"\n")
                pending = []
            pending.append(chunk[cut:])
            if sum(map(len, pending)) > MAX_LINE_BYTES:
                raise ElmoxError(
                    f"{source.path}, line {line}: longer than {MAX_LINE_BYTES // 2**20} MiB, "
                    "expected text with a sentence or a paragraph per line"
                )
            chunk = following
        data = b"".join([*pending, chunk])
        yield Block(source.path, line, data, True, file.num_bytes_read)


def text_digests(names: Sequence[str]) -> dict[str, str]:
    """Return a digest of the size, the first and the last block of each regular file.

    A whole text may be too large to be read only for that. Files that are gone are left out.
    """
    digests = {}
    for name in names:
        for path in [name] if os.path.exists(name) else glob.glob(name, recursive=True):
            if os.path.isfile(path):
                digests[os.path.abspath(path)] = _edges(Path(path))
    return digests


def _edges(path: Path) -> str:
    with path.open("rb") as file:
        first = file.read(BLOCK_BYTES)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - BLOCK_BYTES))
        content = first + file.read(BLOCK_BYTES)
    return hashlib.blake2b(b"%d " % size + content, digest_size=16).hexdigest()


def _find(name: str) -> list[Source]:
    if name == STDIN:
        check_text(name)
        return [Source(name, None)]
    if os.path.exists(name):
        return [_file(name)]
    if not glob.has_magic(name):
        raise ElmoxError(f"{name} does not exist: give a text file, a pattern, or - for stdin")
    paths = sorted(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
    if not paths:
        raise ElmoxError(f"{name} matches no file: give a text file, a pattern, or - for stdin")
    return [_file(path) for path in paths]


def _file(name: str) -> Source:
    path = Path(name)
    if path.is_dir():
        raise ElmoxError(f"{name} is a directory, expected a text file or a pattern like {name}/*")
    check_text(path)
    if is_json_lines(path):
        raise ElmoxError(f"{name} is JSON lines, expected text: extract the text first")
    return Source(name, path.stat().st_size if path.is_file() else None)
