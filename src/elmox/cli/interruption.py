"""Ctrl-C: one line on stderr, which also names how to continue where no work is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = "run the same command again to continue"
RESUME = "continue with --resume"


@contextmanager
def resumable(how: str = AGAIN) -> Iterator[None]:
    """Mark work that a later run continues; `how` is the advice for the user."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(how) from error
