"""Values computed from weights and kept: packed copies, tables, word vectors. Never stale.

torch counts the writes to a tensor, but not all of them: fused optimizers, `p.data.copy_(...)` and
NumPy views change weights and not the count. So the weights themselves are compared with what they
were when the value was made. Addresses, shapes, types and counts are always compared, and of the
contents:

| weights | elements that are compared |
|---|---|
| learned (`requires_grad`), or without a count of writes (inference tensors) | all |
| frozen, up to `SMALL` elements | all |
| frozen, larger | one element in `STRIDE`, but at least `LEAST_SAMPLES` |

Optimizers, moving averages and loaders write whole tensors, which changes the sampled elements,
too. A write to a few elements of a large frozen tensor behind torch's back can be missed;
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
LEAST_SAMPLES = 64
_ALONE = 2**16  # elements that are compared where they are; fewer are gathered first
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_versions = itertools.count(1)
_thread = local()


@contextmanager
def weights_fixed() -> Iterator[None]:
    """Compare weights only once inside: the caller does not change them there.

    It holds for this thread. On a GPU every comparison waits for the device.
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
    """Numbers the versions of some weights. Copies and pickles start anew."""

    def __init__(self) -> None:
        self._seen: _Snapshot | None = None

    def version(self, weights: Sequence[Tensor]) -> int:
        """Return a number that has changed if the weights have."""
        seen, scope = self._seen, getattr(_thread, "scope", None)  # threads may replace the first
        identity = tuple(map(_identity, weights))
        if seen is None or seen.identity != identity or not seen.is_current(scope):
            with modes_off(weights[0].device):
                seen = self._seen = _Snapshot(identity, _pairs(weights), next(_versions))
        seen.scope = scope
        return seen.version

    def clear(self) -> None:
        """Take the weights for changed."""
        self._seen = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_seen": None}


class Derived(Generic[T]):
    """Holds what was made from some weights until they change. Copies and pickles start empty."""

    def __init__(self) -> None:
        self._watch = WeightsWatch()
        self._kept: tuple[Hashable, T] | None = None

    def get(self, weights: Sequence[Tensor], make: Callable[[], T], options: Hashable = None) -> T:
        """Return what `make` makes of these weights; it is called again once they have changed.

        Args:
            weights: at least one.
            make: called without gradients, autocast and inference mode.
            options: anything else on which the value depends.
        """
        key = self._watch.version(weights), options
        kept = self._kept  # another thread may replace it meanwhile
        if kept is None or kept[0] != key:
            with modes_off(weights[0].device):
                kept = self._kept = (key, make())
        return kept[1]

    def clear(self) -> None:
        """Forget the value."""
        self._kept = None
        self._watch.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {"_watch": WeightsWatch(), "_kept": None}


@dataclass
class _Snapshot:
    """Weights at one time."""

    identity: tuple[Hashable, ...]
    pairs: list[tuple[list[Tensor], Tensor]]  # views of the weights, and what was in them
    version: int
    scope: object | None = None  # of the last comparison

    def is_current(self, scope: object | None) -> bool:
        """Whether the weights are as they were; not compared again within a scope."""
        if scope is not None and scope is self.scope:
            return True
        return all(torch.equal(_gathered(views), kept) for views, kept in self.pairs)


def _identity(weight: Tensor) -> Hashable:
    """What torch itself says about a tensor."""
    writes = None if weight.is_inference() else weight._version
    where = weight.data_ptr(), weight.device, weight.shape, weight.stride()
    return where, weight.dtype, writes, weight.requires_grad


def _pairs(weights: Sequence[Tensor]) -> list[tuple[list[Tensor], Tensor]]:
    """Views of what is compared, with copies of it. Small views share a copy."""
    groups: dict[Hashable, list[Tensor]] = {}
    for number, weight in enumerate(weights):
        view = _compared(weight)
        alone = view.dim() > 1 or view.numel() > _ALONE
        groups.setdefault(number if alone else (view.device, view.dtype), []).append(view)
    return [(views, _gathered(views).clone()) for views in groups.values()]


def _compared(weight: Tensor) -> Tensor:
    """A view of the bits that are compared; of one dimension if the weight is contiguous."""
    bits = weight.detach().view(_BITS[weight.element_size()])  # bits: NaN is equal to itself
    if not weight.is_contiguous():
        return bits
    if weight.requires_grad or weight.is_inference() or weight.numel() <= SMALL:
        return bits.view(-1)
    stride = min(STRIDE, weight.numel() // LEAST_SAMPLES) | 1  # odd: on all columns in turn
    return bits.view(-1)[::stride]


def _gathered(views: Sequence[Tensor]) -> Tensor:
    return views[0] if len(views) == 1 else torch.cat(list(views))
