"""Checksums of the files of a folder, `checksums.json`: damage is an error, not other numbers.

A CRC-32 finds every error of up to 32 bits in a row, and all but one in four billion of the others.
It protects against damage, not against people. Folders without the file are read unchecked.
"""

import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmox.errors import UnreadableFile, shortened
from elmox.io.files import read_json, to_json
from elmox.io.inputs import require_regular

CHECKSUMS_FILE = "checksums.json"
_KIND = "crc32"
_UNCHECKED = ("README.md", CHECKSUMS_FILE)  # a card may be edited
_CHUNK_BYTES = 1 << 20


def file_checksum(path: Path) -> str:
    """Return the CRC-32 of a regular file, as eight hexadecimal digits."""
    require_regular(path)
    value, buffer = 0, bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                value = zlib.crc32(view[:count], value)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}") from error
    return f"{value:08x}"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files of a new folder, except those of folders in it."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sums = {path.name: file_checksum(path) for path in files if path.name not in _UNCHECKED}
    (folder / CHECKSUMS_FILE).write_bytes(to_json({_KIND: sums}))


@contextmanager
def verifying(folder: Path, names: Iterable[str], enabled: bool = True) -> Iterator[None]:
    """Compare files with their checksums on another thread, while the caller reads them.

    Args:
        folder: where the files are.
        names: of the files; those that do not exist are skipped.
        enabled: whether to compare anything.

    Raises:
        UnreadableFile: a file has another checksum than when it was written.
    """
    if not enabled or not (folder / CHECKSUMS_FILE).is_file():
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        comparison = pool.submit(_compare, folder, tuple(names))
        yield
        comparison.result()


def _compare(folder: Path, names: Iterable[str]) -> None:
    path = folder / CHECKSUMS_FILE
    values: dict[str, Any] = read_json(path)
    sums = values.get(_KIND)
    if values.keys() != {_KIND} or not isinstance(sums, dict):
        raise UnreadableFile(
            f'{path} contains {shortened(values)}, expected {{"{_KIND}": {{file: checksum}}}}: '
            "copy the folder again"
        )
    for name in names:
        if (folder / name).exists() and sums.get(name) != file_checksum(folder / name):
            raise UnreadableFile(
                f"{folder / name} has another checksum than when it was written: copy the folder "
                f"again, or delete {CHECKSUMS_FILE} if the file was changed on purpose"
            )
