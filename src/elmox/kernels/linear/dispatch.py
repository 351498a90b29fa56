"""Choose a prepared product on a CPU by the number of rows.

| product | used for |
|---|---|
| `HalfLinear` | few rows, if the weight loses nothing in 16 bits |
| `PackedLinear` | other rows in float32 |
| `Int8Linear` | dtype int8, from so many multiplications on that rounding the rows pays |
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Protocol

from torch import Tensor

from elmox.kernels.linear.cpu_half import HalfLinear, can_halve, max_half_rows
from elmox.kernels.linear.cpu_int8 import Int8Linear
from elmox.kernels.linear.cpu_packed import PackedLinear

MIN_INT8_PRODUCTS = 2**23  # multiplications


class Linear(Protocol):
    """A product with a prepared weight."""

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias."""

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other."""


class LinearByRows(ABC):
    """A product that is chosen by the number of rows, and prepared when it is first chosen."""

    @abstractmethod
    def for_rows(self, rows: int) -> Linear:
        """Return the product to use for a number of rows."""

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias."""
        return self.for_rows(len(x))(x, bias)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other."""
        return self.for_rows(len(x)).plus(x, other)


class FloatLinear(LinearByRows):
    """The product in float32."""

    def __init__(self, make: Callable[[], Tensor], num_packed: int = 0) -> None:
        """Args:
        make: returns the weight; called whenever it is packed.
        num_packed: number of products of few rows after which the weight is packed for them too,
            which for a large one takes as long as hundreds of products.
        """
        self._num_packed = num_packed
        self._half = cache(lambda: half_linear(make()))
        self._packed = cache(lambda: PackedLinear(make()))

    def for_rows(self, rows: int) -> Linear:
        """Return the product to use for a number of rows."""
        if rows <= max_half_rows():
            if self._num_packed:
                self._num_packed -= 1
            else:
                return self._half() or self._packed()
        return self._packed()


class Int8OrFloatLinear(LinearByRows):
    """The product in 8-bit integers, or in float32 where that is faster."""

    def __init__(self, make: Callable[[], Tensor]) -> None:
        """Args:
        make: returns the weight; called whenever it is packed.
        """
        self._max_float = max_float_rows(make())
        self._float = FloatLinear(make)
        self._int8 = cache(lambda: Int8Linear(make()))

    def for_rows(self, rows: int) -> Linear:
        """Return the product to use for a number of rows."""
        return self._float.for_rows(rows) if rows <= self._max_float else self._int8()


def half_linear(weight: Tensor) -> HalfLinear | None:
    """Return the product with a weight in 16 bits; None if they would change it."""
    return HalfLinear(weight) if can_halve(weight) else None


def max_float_rows(weight: Tensor) -> int:
    """Return the number of rows up to which a product in float32 is faster than in int8."""
    return (MIN_INT8_PRODUCTS - 1) // weight.numel()
