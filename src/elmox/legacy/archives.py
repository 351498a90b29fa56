"""Taking files out of zips and tarballs that may be hostile.

Only members with known names are taken, under their base name, so no path inside an archive can
point anywhere; what is written is counted while it is written, so a small archive cannot fill the
disk whatever its headers claim.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from elmox.errors import ElmoxError

# Weights hardly compress; vocabularies do, but not a hundredfold.
MOST_RATIO = 100
MOST_BYTES = 16 * 2**30
_CHUNK = 2**20

Wanted = Callable[[str], bool]


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
    written: list[Path] = []
    with _errors(archive):
        for name, size, member in _members(archive):
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


def _members(archive: Path) -> Iterator[tuple[str, int, Callable[[], IO[bytes]]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir():
                    yield info.filename, info.file_size, lambda i=info: opened.open(i)  # type: ignore[misc]
        return
    with tarfile.open(archive, "r:*") as tar:
        for entry in tar:
            _refuse_unsafe(entry.name, archive)
            if entry.isfile():
                yield entry.name, entry.size, lambda e=entry: _regular(tar, e)  # type: ignore[misc]


def _regular(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    member = tar.extractfile(entry)
    assert member is not None  # only regular files are asked for
    return member


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
    damaged = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError)
    try:
        yield
    except damaged as error:
        raise ElmoxError(f"{archive} is damaged or cut short: {error}") from error
