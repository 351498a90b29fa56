"""Locks that end with their process, however it ends.

The kernel holds them (`flock`), so a killed process leaves none behind. If the system or the file
system offers no such lock, work continues without one.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from elmox.errors import ElmoxError

_held: set["Lock"] = set()  # by this process
_closed_in_forks = False


class Lock:
    """A lock on a file or directory, held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        """Keep the descriptor that holds the lock."""
        self._descriptor = descriptor
        _close_in_forks()
        _held.add(self)

    def is_on(self, path: Path) -> bool:
        """Return whether `path` is still the name of the locked file."""
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(self._descriptor))

    def release(self) -> None:
        """Release the lock; repeated calls are allowed."""
        if self in _held:
            _held.remove(self)
            os.close(self._descriptor)


def take_lock(path: Path, wait: bool = False) -> Lock | None:
    """Lock a file or directory.

    Args:
        path: an existing file or directory.
        wait: wait until another process that holds the lock releases it.

    Returns:
        The lock; None if the system or the file system offers none.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a network file system without locks
        os.close(descriptor)
        return None
    return Lock(descriptor)


@contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock of `take_lock` for the time of a `with`."""
    lock = take_lock(path, wait)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


@contextmanager
def alone_in(directory: Path, work: str) -> Iterator[None]:
    """Prevent other processes from doing the same work in a directory.

    Args:
        directory: an existing directory.
        work: the work for the error message, such as `fitting in`.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(directory))
        except BlockingIOError:
            raise ElmoxError(f"another process is {work} {directory}: wait for it") from None
        yield


def _close_in_forks() -> None:
    """Make forked processes, such as data loaders, release the locks of their parent."""
    global _closed_in_forks
    if not _closed_in_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_close_all)
        _closed_in_forks = True


def _close_all() -> None:
    """Close the descriptors of this process; those of the parent keep the locks."""
    for lock in list(_held):
        lock.release()
