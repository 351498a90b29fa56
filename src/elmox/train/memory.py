"""Out of memory, said so that something can be done about it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from elmox.errors import ElmoxError


@contextmanager
def memory_explained() -> Iterator[None]:
    """Turn torch's and Python's errors of exhausted memory into one line with advice."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ElmoxError(_ADVICE) from error
    except RuntimeError as error:
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise ElmoxError(_ADVICE) from error


_ADVICE = (
    "out of memory: raise train.accumulate, which changes no result, or lower train.rows or "
    "train.steps"
)
