"""Choose a prepared product on a CPU by the number of rows.

| product | used for |
|---|---|
| `HalfLinear` | few rows, if the weight loses nothing in 16 bits |
| `PackedLinear` | other rows in float32 |
| `Int8Linear` | dtype int8, from so many multiplications on that rounding the rows pays |
"""

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


class LinearByRows:
    """One product up to a number of rows, another one beyond; each is prepared at first use."""

    def __init__(
        self, few: Callable[[], Linear], many: Callable[[], Linear], max_few: Callable[[], int]
    ) -> None:
        self._few, self._many, self._max_few = cache(few), cache(many), max_few

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias."""
        return self.for_rows(len(x))(x, bias)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other."""
        return self.for_rows(len(x)).plus(x, other)

    def for_rows(self, rows: int) -> Linear:
        """Return the product to use for a number of rows."""
        chosen = self._few() if rows <= self._max_few() else self._many()
        return for_rows(chosen, rows)


def for_rows(linear: Linear, rows: int) -> Linear:
    """Return the product to use for a number of rows: chosen once, before a loop."""
    return linear.for_rows(rows) if isinstance(linear, LinearByRows) else linear


def float_linear(make: Callable[[], Tensor]) -> Linear:
    """Return the product with a weight in float32.

    Args:
        make: returns the weight; called again whenever it is packed.
    """
    weight = make()
    if not can_halve(weight):
        return PackedLinear(weight)
    return LinearByRows(lambda: HalfLinear(make()), lambda: PackedLinear(make()), max_half_rows)


def int8_linear(make: Callable[[], Tensor]) -> Linear:
    """Return the product in 8-bit integers, or in float32 where that is faster."""
    weight = make()
    max_float = max_float_rows(weight)
    if not max_float:
        return Int8Linear(weight)
    return LinearByRows(lambda: float_linear(make), lambda: Int8Linear(make()), lambda: max_float)


def max_float_rows(weight: Tensor) -> int:
    """Return the number of rows up to which a product in float32 is faster than in int8."""
    return (MIN_INT8_PRODUCTS - 1) // weight.numel()
