"""Out of memory, said so that something can be done about it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from elmox.errors import ElmoxError

_TRAINING = "raise train.accumulate, which changes no result, or lower train.rows or train.steps"


@contextmanager
def memory_explained(advice: str = _TRAINING) -> Iterator[None]:
    """Turn torch's, Triton's and Python's errors of exhausted memory into one line with advice."""
    message = f"out of memory: {advice}"
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ElmoxError(message) from error
    except RuntimeError as error:  # of torch on a CPU, of CUDA and Triton
        if not any(own in str(error) for own in ("DefaultCPUAllocator", "out of memory")):
            raise
        raise ElmoxError(message) from error
