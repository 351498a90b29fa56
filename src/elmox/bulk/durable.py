"""Files that survive a crash: written whole under another name, flushed to the disk, then renamed.

Nothing here knows about vectors. `write_whole` is the one way a small file appears; `writing` turns
what the operating system refuses (a full disk, a quota, a missing permission) into one line that
names the path.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmox.errors import ElmoxError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` into an `ElmoxError` that names `path`."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).partition("\n")[0]
        raise ElmoxError(
            f"cannot write {path}: {reason}; fix that and run the same command again, "
            "it goes on from what is already there"
        ) from error


def sync_file(path: Path) -> None:
    """Flush the content of a closed file to the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Flush a directory, so that a rename in it outlives a power cut (where the system allows)."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, chunks: Iterator[bytes]) -> None:
    """Write a file so that `path` either does not exist or holds all of it."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a file or a whole directory; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """`lock_directory` for the time of a `with`."""
    lock = lock_directory(path, wait)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def lock_directory(path: Path, wait: bool = False) -> int | None:
    """Keep other processes out of a directory while this one lives.

    The lock is the kernel's (`flock`), so a killed process leaves none behind.

    Args:
        path: the directory.
        wait: until another process that holds it lets go.

    Returns:
        The descriptor that holds the lock, for `os.close`; None where the system or the file system
        offers no such lock.

    Raises:
        BlockingIOError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a network file system without locks: work without one
        os.close(descriptor)
        return None
    return descriptor
