"""Products in 8-bit integers on a CPU: four times the multiplications, a quarter of the bytes.

Weights are stored as 8-bit integers with one scale per output. Activations are rounded row by row
in each call, so that a row's result does not depend on the others. The product of integers is
exact, and is scaled back into float32. Everything else stays in float32.
"""

from functools import cache

import torch
from torch import Tensor

from elmox.errors import ElmoxError

_TINY = 1e-30  # the scale of a row of zeros must not be 0


@cache
def why_not_int8() -> str | None:
    """Return why this torch cannot multiply 8-bit integers on the CPU; None if it can."""
    try:
        weight, x = torch.eye(4, 8), torch.rand(2, 8)
        error = float((_Int8Product(weight)(x) - x[:, :4]).abs().max())
    except (AttributeError, RuntimeError) as reason:
        return f"this torch lacks oneDNN's 8-bit products ({str(reason).splitlines()[0]})"
    return None if error < 0.02 else "oneDNN's 8-bit products are wrong on this machine"


def require_int8(device: str) -> None:
    """Raise an `ElmoxError` if 8-bit integers cannot be used on a device."""
    if device.partition(":")[0] != "cpu":
        raise ElmoxError(
            f"dtype='int8' on device='{device}': int8 is for CPUs; on a GPU use 'bfloat16'"
        )
    reason = why_not_int8()
    if reason is not None:
        raise ElmoxError(f"dtype='int8': {reason}; use 'float32'")


def _num_levels() -> int:
    """Return the largest integer of a rounded activation.

    Without VNNI instructions, pairs of products are added in 16 bits, which 7-bit activations
    cannot overflow.
    """
    return 127 if torch.cpu._is_vnni_supported() else 63


class _Int8Product:
    """The product x W^T in float32, x (rows, in), W (out, in), by torch's internal operator."""

    def __init__(self, weight: Tensor) -> None:
        self._levels = _num_levels()
        self._scale = weight.abs().amax(1).clamp_min_(_TINY) / 127
        rounded = (weight / self._scale[:, None]).round_().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(rounded, None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def __call__(self, x: Tensor) -> Tensor:
        product, scale = self.unscaled(x)
        return product.mul_(scale)

    def unscaled(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the product without the rows' scale, and that scale (rows, 1)."""
        # Unsigned integers around a zero point: oneDNN has no fast product for signed ones.
        levels = self._levels
        largest = x.abs().amax(1, keepdim=True).clamp_min_(_TINY)
        zero = levels + 1
        rounded = (x * (levels / largest)).add_(zero + 0.5).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, zero, self._weight, self._scale, self._zeros, None),
            *(1.0, 0, torch.float32, "none", [], ""),
        )
        return product, largest.div_(levels)


class Int8Linear:
    """`PackedLinear` in 8-bit integers. It copies the weight and does not follow its changes."""

    def __init__(self, weight: Tensor) -> None:
        self._product = _Int8Product(weight.float())

    def __call__(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x W^T + bias, (rows, out)."""
        product = self._product(x)
        return product if bias is None else product.add_(bias)

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return x W^T + other, (rows, out)."""
        product, scale = self._product.unscaled(x)
        return torch.addcmul(other, product, scale, out=product)
