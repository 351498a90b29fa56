"""A gate that makes `os.fork` wait until no other thread computes.

oneDNN takes a lock of its own in every product. A process forked while another thread holds that
lock waits for it forever. So threads enter a gate for each piece of work, and a fork closes the
gate and waits until all threads have left.

OpenMP's threads do not exist in a forked process either, and a product that wants them waits
forever. So a forked process computes on one thread.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Condition, get_ident

import torch

MAX_WAIT = 60.0  # seconds; then the fork continues, as it would without a gate


@contextmanager
def computing() -> Iterator[None]:
    """Keep other threads from forking inside, for work that takes at most a few seconds."""
    gate = _gate()
    gate.enter()
    try:
        yield
    finally:
        gate.leave()


class ForkGate:
    """Admission of threads that compute, closed while a thread forks."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._changed = Condition()
        self._inside: dict[int, int] = {}  # entries of each thread
        self._forking: set[int] = set()

    def enter(self) -> None:
        """Wait for forks to end; a thread that is inside enters again at once."""
        thread = get_ident()
        with self._changed:
            while self._forking and thread not in self._inside:
                self._changed.wait()
            self._inside[thread] = self._inside.get(thread, 0) + 1

    def leave(self) -> None:
        """Undo one `enter`."""
        thread = get_ident()
        with self._changed:
            self._inside[thread] -= 1
            if not self._inside[thread]:
                del self._inside[thread]
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until no thread is inside, except those that fork."""
        with self._changed:
            self._forking.add(get_ident())
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._inside.keys() <= self._forking, MAX_WAIT)

    def open(self) -> None:
        """Admit threads again, in the process that forked."""
        with self._changed:
            self._forking.discard(get_ident())
            self._changed.notify_all()

    def open_in_child(self) -> None:
        """Forget the threads of the parent; the one that forked may be inside."""
        if torch.get_num_threads() > 1:
            torch.set_num_threads(1)
        thread = get_ident()
        depth = self._inside.get(thread, 0)
        self._reset()
        if depth:
            self._inside[thread] = depth


@cache
def _gate() -> ForkGate:
    gate = ForkGate()
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(
            before=gate.close, after_in_parent=gate.open, after_in_child=gate.open_in_child
        )
    return gate
