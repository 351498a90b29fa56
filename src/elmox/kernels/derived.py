"""A cache of values computed from weights (packed copies, tables, word vectors), never stale.

torch counts the writes to a tensor, but not all of them: fused optimizers, `p.data.copy_(...)` and
NumPy views change weights without changing the count. So the weights are compared with their state
when the value was computed. Addresses, shapes, types and counts are always compared. Contents are
compared as follows:

| weights | compared elements |
|---|---|
| trainable (`requires_grad`), or without a count of writes (inference tensors) | all |
| frozen, up to `SMALL` elements | all |
| frozen, larger | one element in `STRIDE`, but at least `MIN_SAMPLES` |

Optimizers, moving averages and loaders write whole tensors, which also changes the sampled
elements. An uncounted write to a few elements of a large frozen tensor can be missed;
`Elmo.clear_cache` is for those.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from elmox.kernels.torch_modes import modes_off

T = TypeVar("T")

SMALL = 2**13
STRIDE = 2**13 - 1
MIN_SAMPLES = 64
_LARGE = 2**16  # elements of a view that is compared by itself; smaller ones are gathered first
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_versions = itertools.count(1)
_thread = local()


@contextmanager
def weights_fixed() -> Iterator[None]:
    """Compare weights only once inside, where the caller does not change them.

    This applies to the current thread. On a GPU every comparison waits for the device.
    """
    if getattr(_thread, "scope", None) is not None:
        yield
        return
    _thread.scope = object()
    try:
        yield
    finally:
        _thread.scope = None


class WeightsWatch:
    """Version numbers of some weights. Copies and pickles start anew."""

    def __init__(self) -> None:
        self._snapshot: _Snapshot | None = None

    def version(self, weights: Sequence[Tensor]) -> int:
        """Return a number that changes when the weights change."""
        scope = getattr(_thread, "scope", None)
        snapshot = self._snapshot  # another thread may replace it meanwhile
        identity = tuple(map(_identity, weights))
        if snapshot is None or snapshot.identity != identity or not snapshot.is_current(scope):
            with modes_off(weights[0].device):
                snapshot = _Snapshot(identity, _pairs(weights), next(_versions))
                self._snapshot = snapshot
        snapshot.scope = scope
        return snapshot.version

    def clear(self) -> None:
        """Treat the weights as changed."""
        self._snapshot = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_snapshot": None}


class Derived(Generic[T]):
    """A value computed from weights, kept until they change. Copies and pickles start empty."""

    def __init__(self) -> None:
        self._watch = WeightsWatch()
        self._cached: tuple[Hashable, T] | None = None

    def get(self, weights: Sequence[Tensor], make: Callable[[], T], options: Hashable = None) -> T:
        """Return the value of `make`, which is called again only after the weights have changed.

        Args:
            weights: at least one.
            make: computes the value; called without gradients, autocast and inference mode.
            options: anything else that the value depends on.
        """
        key = self._watch.version(weights), options
        cached = self._cached  # another thread may replace it meanwhile
        if cached is None or cached[0] != key:
            with modes_off(weights[0].device):
                cached = self._cached = (key, make())
        return cached[1]

    def clear(self) -> None:
        """Drop the value."""
        self._cached = None
        self._watch.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {"_watch": WeightsWatch(), "_cached": None}


@dataclass
class _Snapshot:
    """The state of some weights."""

    identity: tuple[Hashable, ...]
    pairs: list[tuple[list[Tensor], Tensor]]  # views of the weights, and copies of their contents
    version: int
    scope: object | None = None  # of the last comparison

    def is_current(self, scope: object | None) -> bool:
        """Return whether the weights are unchanged; not compared again within a scope."""
        if scope is not None and scope is self.scope:
            return True
        return all(torch.equal(_gathered(views), copy) for views, copy in self.pairs)


def _identity(weight: Tensor) -> Hashable:
    """Return what torch records about a tensor."""
    writes = None if weight.is_inference() else weight._version
    layout = weight.data_ptr(), weight.device, weight.shape, weight.stride()
    return layout, weight.dtype, writes, weight.requires_grad


def _pairs(weights: Sequence[Tensor]) -> list[tuple[list[Tensor], Tensor]]:
    """Return views of the compared elements, with copies of them. Small views share a copy."""
    groups: dict[Hashable, list[Tensor]] = {}
    for number, weight in enumerate(weights):
        view = _compared(weight)
        is_large = view.dim() > 1 or view.numel() > _LARGE
        groups.setdefault(number if is_large else (view.device, view.dtype), []).append(view)
    return [(views, _gathered(views).clone()) for views in groups.values()]


def _compared(weight: Tensor) -> Tensor:
    """Return a view of the compared bits; one-dimensional if the weight is contiguous."""
    bits = weight.detach().view(_BITS[weight.element_size()])  # bits: NaN is equal to itself
    if not weight.is_contiguous():
        return bits
    if weight.requires_grad or weight.is_inference() or weight.numel() <= SMALL:
        return bits.view(-1)
    stride = min(STRIDE, weight.numel() // MIN_SAMPLES) | 1  # odd: samples all columns
    return bits.view(-1)[::stride]


def _gathered(views: Sequence[Tensor]) -> Tensor:
    return views[0] if len(views) == 1 else torch.cat(list(views))
