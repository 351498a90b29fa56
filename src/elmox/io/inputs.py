"""Checks for files from elsewhere: only regular files are opened, and only up to a given size.

A pipe or a device in place of a model would block or never end, and a file can declare any size.
Every reader of models, options and vocabularies calls these checks first.
"""

import os
import stat
from pathlib import Path

from elmox.errors import UnreadableFile

MAX_JSON_BYTES = 2**22  # a configuration takes kilobytes
MAX_WORDS_BYTES = 2**29  # a vocabulary: ten million words take a fifth of it
# Weights hardly compress. Vocabularies do, but not a hundredfold.
MAX_RATIO = 100

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def require_regular(path: str | os.PathLike[str]) -> int:
    """Return the size of a regular file, or of the target of a link to one.

    Raises:
        UnreadableFile: the path does not exist, or is a pipe, device, socket or directory.
    """
    status = _status(path)
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise UnreadableFile(f"{path} is {_KINDS.get(kind, 'no file')}, expected a regular file")
    return status.st_size


def require_text_file(path: str | os.PathLike[str]) -> None:
    """Refuse anything except regular files and pipes, which shells make for `<(...)`.

    Raises:
        UnreadableFile: the path does not exist, is a directory, a device or a socket, or must not
            be read.
    """
    kind = stat.S_IFMT(_status(path).st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFIFO):
        raise UnreadableFile(f"{path} is {_KINDS.get(kind, 'no file')}, expected a text file")
    if not os.access(path, os.R_OK):
        raise UnreadableFile(f"{path} cannot be read: permission denied")


def read_whole(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most `max_bytes`."""
    size = require_regular(path)
    if size <= max_bytes:
        try:
            with path.open("rb") as file:
                content = file.read(max_bytes + 1)
        except OSError as error:
            raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}") from error
        size = len(content)  # some file systems report 0 for any file
    if size > max_bytes:
        raise UnreadableFile(f"{path} has {size:,} bytes, expected at most {max_bytes:,}")
    return content


def _status(path: str | os.PathLike[str]) -> os.stat_result:
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise UnreadableFile(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in its name
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFile(f"{path} cannot be read: {reason}") from error
