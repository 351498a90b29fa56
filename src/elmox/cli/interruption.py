"""Ctrl-C: one line that says so, and how to go on where the work is not lost."""

from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = "run the same command again to go on"
RESUME = "go on with --resume"


@contextmanager
def resumable(how: str = AGAIN) -> Iterator[None]:
    """Work that a later run takes up where an interruption left it; `how` is what to tell."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how) from error
