"""Products with a weight that oneDNN has laid out for itself, in float32 on a CPU.

A plain product rearranges the weight on every call, which costs more than the product itself where
rows are few: with the original size's recurrent weight, 64 rows run at 113 GFLOP/s plainly and at
207 with the weight laid out once (two cores; about 215 is the most that this machine gives).
"""

import torch
from torch import Tensor

_LIKELY_ROWS = 64  # oneDNN asks for a hint; one of 64 is within 2% of the best from 7 rows to 1,000


def can_pack(weight: Tensor) -> bool:
    """Whether this torch, device and precision have the packed product."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def rounded_rows(rows: int) -> int:
    """How many rows to compute for `rows`: a few more, so that few different numbers occur.

    oneDNN compiles code for every shape that it meets and keeps a thousand of them, which costs
    hundreds of megabytes and the time to compile them; text has batches of every size.
    """
    step = 1 if rows <= 16 else 4 if rows <= 64 else 8 if rows <= 256 else 16 if rows <= 512 else 64
    return -(-rows // step) * step


class PackedLinear:
    """x -> x W^T, with W (out, in) laid out once. A copy: it does not follow the weight."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _LIKELY_ROWS)

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x W^T + bias, (rows, out)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, bias, "none", [], "")
        return product

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """x W^T + other, (rows, out), in one pass."""
        binary = torch.ops.mkldnn._linear_pointwise.binary
        product: Tensor = binary(x, other, self._weight, None, "add")
        return product
