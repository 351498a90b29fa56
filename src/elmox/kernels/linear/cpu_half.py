"""Products with a weight of half precision, in float32 on a CPU: for few rows.

The time of a product of few rows is that of reading its weight. If every number of a weight is one
of float16, as in a model stored with `dtype="float16"`, the packed weight is kept in 16 bits. It is
expanded in registers, multiplied with float32 and added up in float32, so that the product is the
same up to the order of its sums. The layer is also small enough for the caches of many CPUs.
"""

import warnings
from functools import cache

import torch
from torch import Tensor

from elmox.kernels.linear.cpu_packed import can_pack

_MAX_ROWS = {1: 24, 2: 4}  # by number of threads: this product uses one


def max_half_rows() -> int:
    """Return the number of rows up to which `HalfLinear` is faster than `PackedLinear`."""
    return _MAX_ROWS.get(torch.get_num_threads(), 0)


def can_halve(weight: Tensor) -> bool:
    """Return whether this torch has the product, and the weight loses nothing in 16 bits."""
    if not can_pack(weight) or not _half_products_work():
        return False
    parts = weight[:1], weight  # one row is enough to refuse most weights
    return all(bool((part.half() == part).all()) for part in parts)


class HalfLinear:
    """`PackedLinear` with the weight in 16 bits; see `can_halve`."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = torch.fbgemm_pack_gemm_matrix_fp16(weight)

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias, (rows, out)."""
        product: Tensor = torch.fbgemm_linear_fp16_weight_fp32_activation(x, self._weight, bias)
        return product

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other, (rows, out)."""
        if x.shape[0] == 1:
            return self(x, other.view(-1))
        return self(x).add_(other)


@cache
def _half_products_work() -> bool:
    """Try a product; the first one warns that torch will remove it, in favor of nothing."""
    weight, x = torch.eye(4, 8), torch.rand(2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.equal(HalfLinear(weight)(x), x[:, :4])
        except (AttributeError, RuntimeError, TypeError):  # removed, or not for this CPU
            return False
