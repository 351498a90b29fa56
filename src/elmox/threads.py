"""The number of CPU threads, and how they wait for each other."""

import os
import sys

from elmox.errors import Argument, ArgumentError, require_at_least

MOST_THREADS = 1024


def wait_passively() -> None:
    """Let threads wait without spinning, unless the environment decides otherwise.

    Threads that spin take the cores of other processes. OpenMP reads this once, when torch is
    imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def set_threads(number: int) -> None:
    """Compute on this many CPU threads.

    Called before torch is imported, it also lets threads wait without spinning, which would slow
    down other processes on the same cores. After that, only `OMP_WAIT_POLICY=passive` in the
    environment of the process does.

    Args:
        number: threads per product; for several processes on one machine, its cores divided by
            their number.
    """
    require_at_least(1, "number", number)
    if number > MOST_THREADS:  # OpenMP ends the process if it cannot start so many
        raise ArgumentError(
            "{} is {}, expected at most {}", Argument("number"), number, MOST_THREADS
        )
    if "torch" not in sys.modules:
        wait_passively()
    import torch

    torch.set_num_threads(number)
