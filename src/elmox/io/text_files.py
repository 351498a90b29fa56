"""Opening a text file as it was published: UTF-8, plain or compressed."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TextIO, cast

from elmox.errors import ElmoxError
from elmox.io.inputs import refuse_device


@contextmanager
def open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Open a file for reading, line by line or as a whole.

    A byte order mark is left out. What goes wrong later, while the file is read inside the `with`,
    is an `ElmoxError` that names the file too.

    Args:
        path: the file, perhaps compressed.
        newline: as `open` takes it: None, and every kind of line end reads as a newline; "", and
            they stay as they are.
    """
    try:
        with (
            open_bytes(path) as file,
            TextIOWrapper(file, encoding="utf-8-sig", newline=newline) as text,
        ):
            yield text
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 text: {error.reason}") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The same in bytes, whatever they are.

    How a file is compressed is told by its name: .gz, .xz or .bz2.
    """
    try:
        if path.exists():
            refuse_device(path)
        with _opened(path) as file:
            yield file
    except FileNotFoundError:
        raise ElmoxError(f"{path} does not exist") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ElmoxError(f"{path} is damaged or not a {path.suffix} file: {error}") from error
    except OSError as error:  # also bz2's "Invalid data stream"
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error


def text_suffix(path: Path) -> str:
    """What a file's name ends in, in small letters, below the suffix of its compression."""
    name = path.name.lower()
    for suffix in (".gz", ".xz", ".bz2"):
        name = name.removesuffix(suffix)
    return Path(name).suffix


def _opened(path: Path) -> IO[bytes]:
    match path.suffix.lower():
        case ".gz":
            return cast(IO[bytes], gzip.open(path))
        case ".xz":
            return lzma.open(path)
        case ".bz2":
            return bz2.open(path)
    return path.open("rb")
