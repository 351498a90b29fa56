"""Products with a weight in oneDNN's own layout, in float32 on a CPU.

A plain product rearranges the weight in every call, which costs more than the product itself if
there are few rows. Packing it once nearly doubles the speed of 64 rows with the recurrent weight of
the original size.
"""

import torch
from torch import Tensor

_LIKELY_ROWS = 64  # oneDNN's hint; 64 is within 2% of the best from 7 rows to 1,000


def can_pack(weight: Tensor) -> bool:
    """Return whether this torch, device and precision have the packed product."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def rounded_rows(rows: int) -> int:
    """Return the number of rows to compute for `rows`: rounded up, so that few numbers occur.

    oneDNN compiles code for every new shape and keeps a thousand of them, which costs time and
    hundreds of megabytes; text has batches of every size.
    """
    step = 1 if rows <= 16 else 4 if rows <= 64 else 8 if rows <= 256 else 16 if rows <= 512 else 64
    return -(-rows // step) * step


class PackedLinear:
    """The product x W^T with W (out, in) packed. It does not follow changes of the weight."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _LIKELY_ROWS)

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias, (rows, out)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, bias, "none", [], "")
        return product

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other, (rows, out), in one pass."""
        binary = torch.ops.mkldnn._linear_pointwise.binary
        product: Tensor = binary(x, other, self._weight, None, "add")
        return product
