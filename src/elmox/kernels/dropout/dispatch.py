"""Keyed dropout, by plain torch or by a Triton kernel, which drop the same elements."""

from torch import Tensor

from elmox.errors import ElmoxError
from elmox.kernels.availability import why_not_triton
from elmox.kernels.dropout.plain import drop_threshold, plain_dropout, signed


def keyed_dropout(x: Tensor, p: float, key: int, rows: Tensor, row_dim: int) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p).

    Args:
        x: any shape, floating point.
        p: 0 <= p < 1; with 0 the result is x itself.
        key: 64 bits; each key has its own mask.
        rows: (B,) global number of each row, on any device.
        row_dim: the axis of the rows in x.
    """
    if not 0 <= p < 1:
        raise ElmoxError(f"dropout is {p}, expected at least 0 and less than 1")
    if p == 0:
        return x
    rows, row_dim, scale = rows.to(x.device), row_dim % x.dim(), 1 / (1 - p)
    assert rows.shape == (x.shape[row_dim],), f"{len(rows)} numbers for {x.shape[row_dim]} rows"
    if why_not_triton(x) is None:
        from elmox.kernels.dropout.triton_kernels import dropout

        return dropout(x, drop_threshold(p), scale, signed(key, 64), rows, row_dim)
    return plain_dropout(x, p, key, rows, row_dim, scale)
