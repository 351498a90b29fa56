"""Functions that worker processes of the tests can import."""

import os
import time


def square(number: int) -> int:
    """Take longer for small numbers, so that results finish in another order than the items."""
    time.sleep(0.02 / (1 + number))
    return number * number


def leave(number: int) -> int:
    """End the process as if it were killed."""
    if number == 1:
        os._exit(9)
    return number


def process_id(number: int) -> int:
    """Return the id of the process that did the work."""
    return os.getpid()
