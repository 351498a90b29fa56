"""Taking files out of zips and tarballs that may be hostile.

Only members with known names are taken, under their base name, so no path inside an archive can
point anywhere; what is read and written is counted as it comes, so a small archive can fill neither
the disk nor the memory, whatever its headers claim.
"""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast

from elmox.errors import ElmoxError

# Weights hardly compress; vocabularies do, but not a hundredfold.
MOST_RATIO = 100
MOST_BYTES = 16 * 2**30
_CHUNK = 2**20
_COMPRESSED: dict[bytes, Callable[[Path, str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
}

# RuntimeError: encrypted, or compressed in a way that zipfile does not know.
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError
)  # fmt: skip

Wanted = Callable[[str], bool]
Member = tuple[str, int, Callable[[], IO[bytes]]]  # its name, its size as claimed, how to open it


def archive_kind(path: Path) -> Literal["zip", "tarball"] | None:
    """What kind of archive a file is, by its first bytes; None if it is none."""
    if zipfile.is_zipfile(path):
        return "zip"
    with path.open("rb") as file:
        start = file.read(262)
    is_tar = start.startswith(tuple(_COMPRESSED)) or start[257:262] == b"ustar"
    return "tarball" if is_tar else None


def extract(archive: Path, target: Path, wanted: Wanted) -> list[Path]:
    """Take the wanted members of a .zip or .tar.gz into a flat directory.

    Args:
        archive: the file; its content, not its name, decides how it is read.
        target: an existing directory.
        wanted: says by base name which members to take.

    Returns:
        The files written. Two wanted members with the same base name are an error.
    """
    budget = min(MOST_BYTES, MOST_RATIO * archive.stat().st_size + _CHUNK)
    members = _zip_members if archive_kind(archive) == "zip" else _tar_members
    written: list[Path] = []
    with _errors(archive):
        for name, size, member in members(archive, budget):
            _refuse_unsafe(name, archive)
            base = PurePosixPath(name).name
            if not wanted(base):
                continue
            path = target / base
            if path in written:
                raise ElmoxError(f"{archive} holds two files called {base}: unpack it and choose")
            if size > budget:
                raise _bomb(archive)
            with path.open("wb") as out:
                budget -= _copy(member(), out, budget, archive)
            written.append(path)
    return written


def _zip_members(archive: Path, budget: int) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if not info.is_dir():
                yield info.filename, info.file_size, partial(opened.open, info)


def _tar_members(archive: Path, budget: int) -> Iterator[Member]:
    with archive.open("rb") as file:
        start = file.read(8)
    decompress = next((d for magic, d in _COMPRESSED.items() if start.startswith(magic)), open)
    with decompress(archive, "rb") as file:
        stream = _Counted(file, budget, archive)
        # A stream, because tarfile skips members, and reads names, of any size that a header says.
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as tar:
            for entry in tar:
                _refuse_unsafe(entry.name, archive)
                if entry.isfile():
                    yield entry.name, entry.size, partial(_regular, tar, entry)
        while stream.read(_CHUNK):  # to the end, where the checksum stands
            pass


def _regular(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    member = tar.extractfile(entry)
    assert member is not None  # only regular files are asked for
    return member


class _Counted:
    """A stream of which only so much can be read."""

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
        raise ElmoxError(
            f"{archive} wants to write outside its folder ({name!r}): it was not unpacked"
        )


def _copy(member: IO[bytes], out: IO[bytes], budget: int, archive: Path) -> int:
    total = 0
    with member:
        while block := member.read(_CHUNK):
            total += len(block)
            if total > budget:
                raise _bomb(archive)
            out.write(block)
    return total


def _bomb(archive: Path) -> ElmoxError:
    return ElmoxError(
        f"{archive} unpacks to more than {MOST_RATIO} times its size or {MOST_BYTES >> 30} GiB, "
        "which no model does: it was not unpacked"
    )


@contextmanager
def _errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise ElmoxError(f"{archive} is damaged, cut short or encrypted: {error}") from error
    except OSError as error:  # gzip and bz2 raise it too, but without a number
        if error.errno is None:
            raise ElmoxError(f"{archive} is damaged or cut short: {error}") from error
        raise ElmoxError(f"{archive} cannot be unpacked: {error.strerror}") from error
