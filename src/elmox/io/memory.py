"""Out of memory, as an error that explains what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from elmox.errors import ArgumentError

_TRAINING = "raise train.accumulate, which changes no result, or lower train.rows or train.steps"


@contextmanager
def memory_explained(advice: str = _TRAINING, *values: object) -> Iterator[None]:
    """Turn the errors of torch, Triton and Python for exhausted memory into one line with advice.

    Args:
        advice: the advice, with a `{}` for each of the values.
        values: as in `ArgumentError`.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise ArgumentError(f"out of memory: {advice}", *values) from error
    except RuntimeError as error:
        # On a CPU torch raises a bare RuntimeError, and so do CUDA and Triton: only the text tells.
        if not any(sign in str(error) for sign in ("DefaultCPUAllocator", "out of memory")):
            raise
        raise ArgumentError(f"out of memory: {advice}", *values) from error
