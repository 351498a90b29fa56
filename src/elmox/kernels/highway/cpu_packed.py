"""The highway layer of `model/highway.py` on packed weights, with one product for both maps."""

import torch
import torch.nn.functional as F
from torch import Tensor

from elmox.kernels.linear.cpu_packed import rounded_rows
from elmox.kernels.linear.dispatch import FloatLinear

FEW_PACKED = 32  # products of few rows, see `FloatLinear`


class PackedHighway:
    """A highway layer (U, F) -> (U, F). It copies the weights and does not follow their changes."""

    def __init__(
        self, carry: Tensor, carry_bias: Tensor, transform: Tensor, transform_bias: Tensor
    ) -> None:
        self._linear = FloatLinear(lambda: torch.cat([carry, transform]), FEW_PACKED)
        self._bias = torch.cat([carry_bias, transform_bias])

    def __call__(self, x: Tensor) -> Tensor:
        """Compute `Highway.forward`."""
        padded = F.pad(x, (0, 0, 0, rounded_rows(len(x)) - len(x)))
        gate, transformed = self._linear(padded, self._bias).chunk(2, dim=1)
        return torch.lerp(padded, transformed.relu_(), gate.sigmoid_())[: len(x)]
