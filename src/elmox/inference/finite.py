"""Errors instead of vectors and scores that are NaN or infinite.

Half precision (float16) ends at 65,504. Larger numbers become infinite, and soon NaN.
"""

import torch
from torch import Tensor, nn

from elmox.errors import ElmoxError


def require_finite(is_finite: bool | Tensor, what: str, dtype: torch.dtype) -> None:
    """Raise an `ElmoxError` unless a computation's results are finite.

    Args:
        is_finite: whether the results are finite.
        what: the results, in words.
        dtype: the precision of the computation.
    """
    if not is_finite:
        name = _name(dtype)
        advice = (
            "its range is too small for this model, use dtype='bfloat16' or 'float32'"
            if dtype == torch.float16
            else "check that the model's weights are finite"
        )
        raise ElmoxError(f"{what} computed in {name} are NaN or infinite: {advice}")


def can_overflow(dtype: torch.dtype) -> bool:
    """Return whether ordinary weights can produce numbers beyond a precision's range."""
    return dtype == torch.float16


def require_range(module: nn.Module, dtype: torch.dtype) -> None:
    """Raise an `ElmoxError` if a module's weights do not fit into a precision."""
    if not can_overflow(dtype):
        return
    for name, parameter in module.named_parameters():
        # Both ends in one transfer from a GPU; both are NaN if any value is.
        if not torch.stack(parameter.detach().aminmax()).to(dtype).isfinite().all():
            largest = torch.finfo(dtype).max
            raise ElmoxError(
                f"{name} has values beyond {largest:,.0f}, the largest of {_name(dtype)}: use "
                "dtype='bfloat16' or 'float32'"
            )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
