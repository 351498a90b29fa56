"""torch's global modes, switched off where elmox must not depend on them.

| mode of the caller | effect on the biLM |
|---|---|
| `torch.inference_mode()` | none: its tensors are ordinary ones, because cached ones are reused |
| `torch.autocast(...)` | none: it computes in the precision of its weights |
| `torch.compile(...)` | a graph break: it runs uncompiled |
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def modes_off(device: torch.device) -> Iterator[None]:
    """Compute on a device without gradients, inference mode or autocast."""
    # The order matters: leaving inference mode switches gradients on.
    with torch.inference_mode(False), torch.no_grad(), autocast_off(device):
        yield


@contextmanager
def autocast_off(device: torch.device) -> Iterator[None]:
    """Compute on a device in the precision of the tensors."""
    if not torch.is_autocast_enabled(device.type):  # the usual case: save the time to switch
        yield
        return
    with torch.autocast(device.type, enabled=False):
        yield


def not_compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that `torch.compile` does not trace into it.

    `torch.compiler.disable` does this, but it imports the compiler, which takes seconds. So it is
    called only when a compiler is already running.
    """
    disabled: list[Callable[P, T]] = []  # always the same one: a new one would be compiled anew

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if not torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))  # type: ignore[no-untyped-call]
        return disabled[0](*args, **kwargs)

    return run


class TorchCalls(TorchFunctionMode):
    """A mode in which every torch function that is called passes through `call`."""

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; subclasses look at the arguments, or replace the result."""
        return func(*args, **kwargs)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.call(func, args, kwargs or {})
