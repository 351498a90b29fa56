"""A highway layer (Srivastava et al. 2015), in the released models' convention.

    g = sigmoid(x W_carry + b_carry),  t = relu(x W_transform + b_transform),  out = g*t + (1-g)*x

The array that the weight files call "carry" opens the gate for the *transformed* value; the name is
kept because every AI2 file uses it.
"""

import torch
from torch import Tensor, nn

from elmox.kernels.derived import Derived
from elmox.kernels.dispatch import why_not_triton
from elmox.kernels.highway.packed import PackedHighway
from elmox.kernels.linear.packed import can_pack
from elmox.kernels.torch_modes import modes_off


class Highway(nn.Module):
    """One highway layer: (U, F) -> (U, F)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)
        self._packed: Derived[PackedHighway] = Derived()

    def forward(self, x: Tensor) -> Tensor:
        carry, transform = self.carry, self.transform
        if len(x) > 0 and why_not_triton(carry.weight) is None:
            from elmox.kernels.highway.triton_kernels import highway

            return highway(x, carry.weight, carry.bias, transform.weight, transform.bias)
        if not torch.is_grad_enabled() and can_pack(carry.weight):
            weights = carry.weight, carry.bias, transform.weight, transform.bias
            with modes_off(x.device):
                packed = self._packed.get(weights, lambda: PackedHighway(*weights))
                return packed(x.to(carry.weight.dtype))
        transformed, gate = torch.relu(transform(x)), torch.sigmoid(carry(x))
        return torch.lerp(x.to(gate.dtype), transformed, gate)  # autocast may have rounded them
