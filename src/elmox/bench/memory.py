"""Out of memory, said in the words of whoever asked for too much."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from elmox.errors import ElmoxError


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Turn torch's and Python's errors of exhausted memory into one line.

    Args:
        what: what there was no room for, and what to do.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ElmoxError(f"out of memory for {what}") from error
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise ElmoxError(f"out of memory for {what}") from error
