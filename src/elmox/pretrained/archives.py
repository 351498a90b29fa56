"""Extract files from zips and tarballs that may be hostile.

Only members with known names are extracted, under their base name, so that no path inside an
archive can point anywhere. Bytes are counted as they are read and written, so that a small archive
can fill neither the disk nor the memory, whatever its headers claim.
"""

import bz2
import gzip
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_RATIO, require_regular
from elmox.pretrained.tar_stream import DamagedTar, Stream, TarMember, tar_members

MAX_MEMBERS = 10_000  # AllenNLP packs a vocabulary of a few dozen files
MAX_EXTRACTED = 100  # of them
MAX_BYTES = 16 * 2**30
_CHUNK = 2**20
_MAX_ENTRY_BYTES = 512  # per member in a zip's directory; names are short
_COMPRESSED: dict[bytes, Callable[[Path, str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}

# RuntimeError: encrypted, or an unknown compression. ValueError and struct.error: headers that
# zipfile does not expect. MemoryError: a huge dictionary of LZMA.
_DAMAGED = (
    zipfile.BadZipFile, DamagedTar, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
    ValueError, LookupError, struct.error, MemoryError
)  # fmt: skip

Wanted = Callable[[str], bool]
# Name, claimed size, and a function that opens it; None for anything but a regular file.
Member = tuple[str, int, Callable[[], AbstractContextManager[Stream]] | None]


def archive_kind(path: Path) -> Literal["zip", "tarball"] | None:
    """Return the kind of archive that a file is, by its first bytes; None if it is none."""
    require_regular(path)
    try:
        if zipfile.is_zipfile(path):
            return "zip"
        with path.open("rb") as file:
            start = file.read(262)
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error
    is_tar = start.startswith(tuple(_COMPRESSED)) or start[257:262] == b"ustar"
    return "tarball" if is_tar else None


def extract(archive: Path, target: Path, is_wanted: Wanted) -> list[Path]:
    """Extract members of a .zip or .tar.gz into a flat directory.

    Args:
        archive: the file; its content, not its name, decides how it is read.
        target: an existing directory.
        is_wanted: returns by base name whether to extract a member.

    Returns:
        The files written. Two extracted members with the same base name are an error.
    """
    budget = min(MAX_BYTES, MAX_RATIO * archive.stat().st_size + _CHUNK)
    members = _zip_members if archive_kind(archive) == "zip" else _tar_members
    written: list[Path] = []
    with _errors(archive):
        for number, (name, size, member) in enumerate(members(archive, budget)):
            if number >= MAX_MEMBERS or len(written) > MAX_EXTRACTED:
                raise _crowd(archive)
            _refuse_unsafe(name, archive)
            base = PurePosixPath(name).name
            if member is None or not is_wanted(base):
                continue
            path = target / base
            if path in written:
                raise ElmoxError(
                    f"{archive} contains two files called {base}: unpack it and choose"
                )
            if size > budget:
                raise _bomb(archive)
            with path.open("wb") as out, member() as content:
                budget -= _copy(content, out, budget, archive)
            written.append(path)
    return written


def _zip_members(archive: Path, budget: int) -> Iterator[Member]:
    if _directory_bytes(archive) > MAX_MEMBERS * _MAX_ENTRY_BYTES:
        raise _crowd(archive)
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            opener = None if info.is_dir() else partial(opened.open, info)
            yield info.filename, info.file_size, opener


def _tar_members(archive: Path, budget: int) -> Iterator[Member]:
    with archive.open("rb") as file:
        start = file.read(8)
    decompress = next((d for magic, d in _COMPRESSED.items() if start.startswith(magic)), open)
    with decompress(archive, "rb") as file:
        stream = _Counted(file, budget, archive)
        for entry in tar_members(stream):
            opener = partial(_opened, entry) if entry.is_regular else None
            yield entry.name, entry.size, opener
        while stream.read(_CHUNK):  # up to the checksum at the end
            pass


def _opened(entry: TarMember) -> AbstractContextManager[Stream]:
    return nullcontext(entry)


class _Counted:
    """A stream that raises an error after a number of bytes."""

    def __init__(self, file: IO[bytes], budget: int, archive: Path) -> None:
        self._file = file
        self._left = budget
        self._archive = archive

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise _bomb(self._archive)
        return block


def _refuse_unsafe(name: str, archive: Path) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or (parts.parts and ":" in parts.parts[0]):
        raise ElmoxError(f"{archive} has a path outside its folder ({name!r}): it was not unpacked")


def _copy(member: Stream, out: IO[bytes], budget: int, archive: Path) -> int:
    total = 0
    while block := member.read(_CHUNK):
        total += len(block)
        if total > budget:
            raise _bomb(archive)
        out.write(block)
    return total


def _directory_bytes(archive: Path) -> int:
    """Return the size of a zip's directory by its last records: `ZipFile` reads all of it."""
    with archive.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - 2**16 - 22 - 76)  # a comment, the record, those for large files
        file.seek(start)
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 22:
        raise zipfile.BadZipFile("it has no directory of members")
    large = end[at - 76 : at - 20] if at >= 76 else b""
    if large.startswith(b"PK\x06\x06") and end[at - 20 :].startswith(b"PK\x06\x07"):
        return int.from_bytes(large[40:48], "little")
    return int.from_bytes(end[at + 12 : at + 16], "little")


def _crowd(archive: Path) -> ElmoxError:
    return ElmoxError(
        f"{archive} has over {MAX_MEMBERS:,} files, or over {MAX_EXTRACTED} of a model's kinds, "
        "which no model has: it was not unpacked"
    )


def _bomb(archive: Path) -> ElmoxError:
    return ElmoxError(
        f"{archive} unpacks to more than {MAX_RATIO} times its size or {MAX_BYTES >> 30} GiB, "
        "which no model does: it was not unpacked"
    )


@contextmanager
def _errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except ElmoxError:
        raise
    except _DAMAGED as error:
        raise ElmoxError(f"{archive} is damaged, cut short or encrypted: {error}") from error
    except OSError as error:  # gzip and bz2 raise it too, but without a number
        if error.errno is None:
            raise ElmoxError(f"{archive} is damaged or cut short: {error}") from error
        raise ElmoxError(f"{archive} cannot be unpacked: {error.strerror}") from error
