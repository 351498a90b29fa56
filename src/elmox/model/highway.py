"""A highway layer (Srivastava et al. 2015), in the released models' convention.

    g = sigmoid(x W_carry + b_carry),  t = relu(x W_transform + b_transform),  out = g*t + (1-g)*x

The array named "carry" opens the gate for the *transformed* value; the name is kept because every
AI2 file has it.
"""

import torch
from torch import Tensor, nn

from elmox.kernels.derived import Derived
from elmox.kernels.highway.cpu_packed import PackedHighway
from elmox.kernels.highway.dispatch import fast_highway


class Highway(nn.Module):
    """One highway layer: (U, F) -> (U, F)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)
        self._packed: Derived[PackedHighway] = Derived()

    def forward(self, x: Tensor) -> Tensor:
        carry, transform = self.carry, self.transform
        weights = carry.weight, carry.bias, transform.weight, transform.bias
        fast = fast_highway(x, weights, self._packed)
        if fast is not None:
            return fast
        transformed, gate = torch.relu(transform(x)), torch.sigmoid(carry(x))
        return torch.lerp(x.to(gate.dtype), transformed, gate)  # autocast may have rounded them
