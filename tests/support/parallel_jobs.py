"""What worker processes do in the tests: functions that a new process can import."""

import os
import time


def square(number: int) -> int:
    """Small numbers take longer, so that results come in another order than the items."""
    time.sleep(0.02 / (1 + number))
    return number * number


def leave(number: int) -> int:
    """A process that is killed at work."""
    if number == 1:
        os._exit(9)
    return number


def process_id(number: int) -> int:
    """Who did it."""
    return os.getpid()
