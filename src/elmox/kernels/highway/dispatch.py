"""A highway layer by Triton kernels or on packed weights, where they apply.

`model/highway.py` is the plain version.
"""

import torch
from torch import Tensor

from elmox.kernels.availability import why_not_triton
from elmox.kernels.derived import Derived
from elmox.kernels.highway.cpu_packed import PackedHighway
from elmox.kernels.linear.cpu_packed import can_pack
from elmox.kernels.torch_modes import modes_off

Weights = tuple[Tensor, Tensor, Tensor, Tensor]


def fast_highway(x: Tensor, weights: Weights, packed: Derived[PackedHighway]) -> Tensor | None:
    """Run a fast version: (U, F) -> (U, F). Return None where none applies.

    Args:
        x: (U, F).
        weights: carry (F, F), its bias (F,), transform (F, F), its bias (F,).
        packed: keeps the packed weights from call to call.
    """
    carry = weights[0]
    if len(x) > 0 and why_not_triton(carry) is None:
        from elmox.kernels.highway.triton_kernels import highway

        return highway(x, *weights)
    if not torch.is_grad_enabled() and can_pack(carry):
        with modes_off(x.device):
            return packed.get(weights, lambda: PackedHighway(*weights))(x.to(carry.dtype))
    return None
