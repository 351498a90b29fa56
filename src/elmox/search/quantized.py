"""Directions of vectors in 8 bits: a row of integers and one scale.

A vector is divided by its largest absolute value, multiplied by 127 and rounded. Its scale is the
inverse length of the integers, so that `scale * integers` has length 1 and its product with a unit
vector is a cosine. A vector of zeros has the scale 0.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.finite import require_finite

LARGEST = 127

Int8 = NDArray[np.int8]
Float32 = NDArray[np.float32]


def quantize(vectors: Tensor) -> tuple[Int8, Float32]:
    """Return the integers (N, D) and the scales (N,) of some vectors (N, D)."""
    values = vectors.float()
    require_finite(values.isfinite().all(), "vectors", vectors.dtype)
    largest = values.abs().amax(dim=1, keepdim=True)
    integers = (values * (LARGEST / largest.clamp_min(torch.finfo(torch.float32).tiny))).round()
    lengths = integers.norm(dim=1)
    scales = torch.where(lengths > 0, 1 / lengths, 0.0)
    return integers.to(torch.int8).cpu().numpy(), scales.cpu().numpy()


def dequantize(integers: NDArray[Any], scales: NDArray[Any]) -> Float32:
    """Return the unit vectors (N, D)."""
    unit: Float32 = integers.astype(np.float32) * scales[:, None]
    return unit


def cosines(integers: NDArray[Any], scales: NDArray[Any], unit: Float32) -> Float32:
    """Return the cosine of each row (N, D) with a unit vector (D,)."""
    values: Float32 = (integers.astype(np.float32) @ unit) * scales
    return values
