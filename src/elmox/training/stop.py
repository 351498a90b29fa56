"""SIGINT and SIGTERM: the step is finished and saved before the run ends."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# A scheduler may signal a process and its launcher, which passes the signal on: that is one wish.
SAME_WISH = 3.0  # seconds


class Stop:
    """The signal that came, if any."""

    signal: int | None = None


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Note the first signal instead of dying of it; one that comes later ends the process."""
    stop = Stop()
    before: dict[int, Any] = {}
    since = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal since
        if stop.signal is None:
            stop.signal, since = number, time.monotonic()
        elif time.monotonic() - since > SAME_WISH:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    try:
        for name in (signal.SIGINT, signal.SIGTERM):
            before[name] = signal.signal(name, handle)
    except ValueError:  # not in the main thread: whoever started the thread decides
        pass
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
