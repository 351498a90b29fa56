"""Hidden files for unfinished writes, and the removal of those that a killed process left.

    .NAME.tmp-1a2b3c4d[.SUFFIX]   the future NAME, or an old NAME that is being removed
    .NAME.old-1a2b3c4d            the old NAME while it is replaced, on file systems that cannot
                                  exchange two names in one step

A process holds a lock on every file that it writes (`locks`). A hidden file without a lock was left
by a killed process. The next process that writes NAME removes it, or restores the old NAME if there
is none. Without support for locks, nothing is removed.
"""

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmox.io.locks import Lock, take_lock

_RANDOM = r"[0-9a-f]{8}"
_LEFTOVER = re.compile(rf"\..+\.(tmp|old)-{_RANDOM}(\.[^.]+)?")


def temporary_name(path: Path, kind: str = "tmp") -> Path:
    """Return an unused hidden name next to `path`."""
    suffix = path.suffix if kind == "tmp" else ""
    while True:
        name = f".{path.name}.{kind}-{secrets.token_hex(4)}{suffix}"
        if not os.path.lexists(path.with_name(name)):
            return path.with_name(name)


def is_leftover(name: str) -> bool:
    """Return whether this may be a hidden name of any file."""
    return _LEFTOVER.fullmatch(name) is not None


def leftovers(path: Path, kind: str = "tmp|old") -> list[Path]:
    """Return the files next to `path` under its hidden names, in use or not."""
    suffix = re.escape(path.suffix)
    pattern = re.compile(rf"\.{re.escape(path.name)}\.({kind})-{_RANDOM}({suffix})?")
    try:
        names = os.listdir(path.parent)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path.with_name(name) for name in sorted(names) if pattern.fullmatch(name)]


def hidden_copy(path: Path) -> Path | None:
    """Return the hidden old `path` that a killed process left, if `path` is missing."""
    copies = [] if os.path.lexists(path) else leftovers(path, "old")
    return copies[0] if copies else None


def missing(path: Path, advice: str) -> str:
    """Return the error message for a missing `path`: the advice, or where its hidden copy is."""
    copy = hidden_copy(path)
    if copy is None:
        return f"{path} does not exist: {advice}"
    return (
        f"{path} was being replaced when the process was killed, and is now called {copy}: run the "
        "same again, or rename it back"
    )


def clear_leftovers(path: Path) -> None:
    """Remove what killed processes left next to `path`, and restore an old `path`."""
    for old in leftovers(path, "old"):
        if (lock := _claim(old)) is not None:
            if os.path.lexists(path):
                remove(old)
            else:
                old.rename(path)
            lock.release()
    for temporary in leftovers(path, "tmp"):
        if temporary.is_symlink():  # an old `path` that is being removed
            remove(temporary)
        elif (lock := _claim(temporary)) is not None:
            remove(temporary)
            lock.release()


def create_temporary(path: Path, directory: bool) -> tuple[Path, Lock | None]:
    """Make an empty file or directory under a hidden name of `path`, locked by this process."""

    def create() -> Path:
        temporary = temporary_name(path)
        if directory:
            temporary.mkdir(mode=0o700)
        else:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return temporary

    return create_locked(create)


def create_locked(create: Callable[[], Path]) -> tuple[Path, Lock | None]:
    """Call `create` until the path it returns exists and is locked by this process."""
    while True:
        path = create()
        try:
            lock = take_lock(path, wait=True)
        except FileNotFoundError:
            continue  # another process removed it before it was locked
        if lock is None or lock.is_on(path):
            return path, lock
        lock.release()


@contextmanager
def temporary_path(path: Path, directory: bool) -> Iterator[Path]:
    """Make an empty file or directory under a hidden name of `path`, and remove it in the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(path)
    temporary, lock = create_temporary(path, directory)
    try:
        yield temporary
    finally:
        remove(temporary)
        if lock is not None:
            lock.release()


@contextmanager
def scratch_directory(name: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a directory for the time of a `with`; those of killed processes are removed first.

    Args:
        name: a word for the purpose of the directory.
        parent: its parent; the system's directory for temporary files by default.
    """
    path = (Path(tempfile.gettempdir()) if parent is None else parent) / name
    with temporary_path(path, directory=True) as temporary:
        yield temporary


def remove(path: Path) -> None:
    """Remove a file or a whole directory, if there is one."""
    while os.path.lexists(path):
        with suppress(FileNotFoundError):  # another process removes it too
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def discard(path: Path) -> None:
    """Remove a directory so that it is never half there under its name."""
    hidden = temporary_name(path)
    path.rename(hidden)
    remove(hidden)


def _claim(path: Path) -> Lock | None:
    """Lock an unused hidden file; return None if it is in use, or if that cannot be determined."""
    try:
        if hasattr(os, "getuid") and path.lstat().st_uid != os.getuid():
            return None  # another user's, in a directory that everyone can write to
        lock = take_lock(path)
    except (FileNotFoundError, PermissionError, BlockingIOError):
        return None
    if lock is not None and not lock.is_on(path):
        lock.release()
        return None
    return lock
