"""A highway layer (Srivastava et al. 2015), in the released models' convention.

    g = sigmoid(x W_carry + b_carry),  t = relu(x W_transform + b_transform),  out = g*t + (1-g)*x

The array that the weight files call "carry" opens the gate for the *transformed* value; the name is
kept because every AI2 file uses it.
"""

import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """One highway layer: (U, F) -> (U, F)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.carry = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), gate)
