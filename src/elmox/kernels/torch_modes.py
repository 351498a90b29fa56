"""torch's global modes, switched off where elmox must not depend on them.

| mode of the caller | what the biLM does |
|---|---|
| `torch.inference_mode()` | makes ordinary tensors: those that are kept serve later calls, too |
| `torch.autocast(...)` | computes in the precision of its weights, with or without gradients |
| `torch.compile(...)` | runs uncompiled, after a graph break |
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def modes_off(device: torch.device) -> Iterator[None]:
    """Compute on a device without gradients, inference mode or autocast."""
    # The order matters: to leave inference mode switches gradients on.
    with torch.inference_mode(False), torch.no_grad(), autocast_off(device):
        yield


@contextmanager
def autocast_off(device: torch.device) -> Iterator[None]:
    """Compute on a device in the precision of the tensors."""
    if not torch.is_autocast_enabled(device.type):  # the usual case: spare the time to switch
        yield
        return
    with torch.autocast(device.type, enabled=False):
        yield


def not_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that `torch.compile` does not look into.

    `torch.compiler.disable` does this, but it imports the compiler, which takes seconds. So it is
    called when a compiler is already running.
    """
    disabled: list[Callable[P, T]] = []  # one, and always the same: a new one is compiled anew

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **kwargs)

    return run
