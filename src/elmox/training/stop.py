"""SIGINT and SIGTERM: finish the step and save a checkpoint before the run ends."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# A scheduler may signal a process and its launcher, which passes the signal on. Signals that come
# this close together count as one.
SAME_SIGNAL_SECONDS = 3.0


class Stop:
    """A flag that signal handlers set.

    Attributes:
        signal: the number of the signal that came, if any.
    """

    signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Record the first signal instead of ending the process; a later one ends it."""
    stop = Stop()
    before: dict[int, Any] = {}
    since = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal since
        if stop.signal is None:
            stop.signal, since = number, time.monotonic()
        elif time.monotonic() - since > SAME_SIGNAL_SECONDS:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, handle)
    except ValueError:  # not in the main thread, which alone may set handlers
        pass
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
