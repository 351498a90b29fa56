"""Standard streams that cannot fail a command whose work is done."""

import io
import os
import sys
from typing import Any

_STDERR = 2


class _Messages(io.FileIO):
    """A stderr whose reader may be gone or whose disk may be full: messages are dropped then."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError:
            return len(memoryview(content).cast("B"))


def keep_messages_harmless() -> None:
    """Make stderr drop what it cannot write, and open streams that the caller has closed.

    A file that is opened while stderr is closed would take its number, and receive all messages.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(number)
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    stderr = io.BufferedWriter(_Messages(_STDERR, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(stderr, encoding, "backslashreplace", line_buffering=True)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for the rest of the process)
