"""Locks that end with their process, however that ends.

They are the kernel's (`flock`), so a killed process leaves none behind, and no process id that
another one may get. Where the system or the file system offers no such lock, work goes on without.
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
        """Whether `path` is still the name of what is locked."""
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(self._descriptor))

    def release(self) -> None:
        """Let other processes in; fine to repeat."""
        if self in _held:
            _held.remove(self)
            os.close(self._descriptor)


def take_lock(path: Path, wait: bool = False) -> Lock | None:
    """Lock a file or directory.

    Args:
        path: an existing one.
        wait: until another process that holds the lock releases it.

    Returns:
        The lock; None where the system or the file system offers none.

    Raises:
        BlockingIOError: another process holds it.
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
    """`take_lock` for the time of a `with`."""
    lock = take_lock(path, wait)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


@contextmanager
def alone_in(directory: Path, work: str) -> Iterator[None]:
    """Keep other processes from doing the same work in a directory.

    Args:
        directory: an existing one.
        work: for the error message: `fitting in`.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(directory))
        except BlockingIOError:
            raise ElmoxError(f"another process is {work} {directory}: wait for it") from None
        yield


def _close_in_forks() -> None:
    """A forked process, such as a data loader, must not hold its parent's locks."""
    global _closed_in_forks
    if not _closed_in_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_close_all)
        _closed_in_forks = True


def _close_all() -> None:
    """Close this process's descriptors; the parent's keep the locks."""
    for lock in list(_held):
        lock.release()
