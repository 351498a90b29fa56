"""What is computed from weights and kept: tables, packed copies. Never stale, never copied."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from torch import Tensor

T = TypeVar("T")


class Derived(Generic[T]):
    """Holds what was made from some weights until they change. Copies and pickles start empty."""

    def __init__(self) -> None:
        self._kept: tuple[Hashable, T] | None = None

    def get(self, weights: Sequence[Tensor], make: Callable[[], T]) -> T:
        """What `make` makes of these weights; it is asked again once they have changed."""
        version = tuple((w.data_ptr(), w._version, w.dtype) for w in weights)
        kept = self._kept  # another thread may replace it meanwhile
        if kept is None or kept[0] != version:
            kept = self._kept = (version, make())
        return kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_kept": None}
