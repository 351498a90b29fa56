"""Matrices in 8-bit integers with scales: a quarter of float32's size, half of float16's.

A row is split into groups of equal length, and each group has a scale of its own: a value is
`integer * scale`. In a file, the integers have the matrix's name and shape, and the scales are
stored under `NAME.scales` with the shape (*rows, groups), from which the length of a group follows.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.io.tensors import read_tensors

SCALES = ".scales"
LARGEST = 127  # -128 is not used, so that both signs have the same range

# Fractions of a group's largest value that the largest integer may stand for: clipping a few values
# can reduce the error of all others.
_FRACTIONS = (1.0, 0.97, 0.94, 0.91, 0.88, 0.84, 0.8)
_SCALE_TYPE = torch.float16
_SMALLEST_SCALE = 2.0**-24  # of float16
_LARGEST_SCALE = torch.finfo(_SCALE_TYPE).max


def group_length(columns: int, most: int) -> int:
    """Return the length of the groups of a row: the largest divisor of up to `most`."""
    return next(size for size in range(min(columns, most), 0, -1) if columns % size == 0)


def quantize(matrix: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the integers and scales with the least squared error.

    A matrix that was restored from such integers gives the same ones again.

    Args:
        matrix: (*rows, columns).
        most: the largest length of a group.

    Returns:
        int8 (*rows, columns) and float16 (*rows, groups).
    """
    size = group_length(matrix.shape[-1], most)
    groups = matrix.detach().float().reshape(-1, size)
    largest = groups.abs().amax(1, keepdim=True)
    if not largest.isfinite().all() or largest.max() > LARGEST * _LARGEST_SCALE:
        raise ElmoxError(
            "a matrix has values that are not finite or too large for 8 bits: store it in float32"
        )
    best_error = torch.full_like(largest, torch.inf)
    best_scale = torch.zeros_like(largest)
    for fraction in _FRACTIONS:
        scale = (largest * (fraction / LARGEST)).to(_SCALE_TYPE).float().clamp_min(_SMALLEST_SCALE)
        error = (_integers(groups, scale) * scale - groups).square_().sum(1, keepdim=True)
        is_better = error < best_error
        best_error = torch.where(is_better, error, best_error)
        best_scale = torch.where(is_better, scale, best_scale)
    integers = _integers(groups, best_scale).to(torch.int8)
    scales = best_scale.to(_SCALE_TYPE).reshape(*matrix.shape[:-1], -1)
    return integers.reshape(matrix.shape), scales


def dequantize(integers: Tensor, scales: Tensor) -> Tensor:
    """Return the matrix in float32."""
    groups = integers.reshape(*scales.shape, -1).float()
    return groups.mul_(scales.float().unsqueeze(-1)).reshape(integers.shape)


def packed(
    tensors: Mapping[str, Tensor], most_per_group: Callable[[str], int | None]
) -> dict[str, Tensor]:
    """Return arrays as a file stores them: large matrices in 8 bits, everything else in floats.

    Args:
        tensors: arrays in any floating-point type.
        most_per_group: the largest length of a group by the name of a matrix; None to store it in
            float16, or in float32 if it has values that float16 cannot hold. Vectors and scalars
            stay in float32.
    """
    stored = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().float()
        most = most_per_group(name) if plain.dim() > 1 and plain.numel() else None
        if most is not None:
            if name + SCALES in tensors:
                raise ElmoxError(f"{name} and {name}{SCALES} cannot both be stored: rename one")
            stored[name], stored[name + SCALES] = quantize(plain, most)
        elif plain.dim() > 1 and plain.half().isfinite().all():
            stored[name] = plain.half()
        else:
            stored[name] = plain
    return stored


def read_weights(path: Path, *, eight_bit: bool = False) -> dict[str, Tensor]:
    """Return the arrays of a file in float32, whatever precision they are stored in.

    Args:
        path: a safetensors file.
        eight_bit: whether matrices in 8 bits are expected; otherwise they are refused.
    """
    stored = read_tensors(path, integers=eight_bit)
    matrices = {name for name, tensor in stored.items() if tensor.dtype == torch.int8}
    weights = {}
    for name, tensor in stored.items():
        if name in matrices:
            weights[name] = dequantize(tensor, _checked_scales(stored, name, path))
        elif not (name.endswith(SCALES) and name.removesuffix(SCALES) in matrices):
            weights[name] = tensor.float()
    return weights


def _integers(groups: Tensor, scale: Tensor) -> Tensor:
    return (groups / scale).round_().clamp_(-LARGEST, LARGEST)


def _checked_scales(stored: Mapping[str, Tensor], name: str, path: Path) -> Tensor:
    """Return the scales of a matrix in 8 bits, which must fit it and be finite and not negative."""
    scales, shape = stored.get(name + SCALES), stored[name].shape
    if scales is None:
        raise ElmoxError(f"{path}: {name} is stored in 8 bits without {name}{SCALES}")
    if scales.dtype not in (torch.float16, torch.float32):
        raise ElmoxError(f"{path}: {name}{SCALES} holds {scales.dtype}, expected float16 or 32")
    groups = scales.shape[-1] if scales.dim() else 0
    fits = len(shape) > 1 and scales.shape[:-1] == shape[:-1]
    if not fits or not groups or shape[-1] % groups or not stored[name].numel():
        raise ElmoxError(
            f"{path}: {name}{SCALES} has shape {tuple(scales.shape)}, which does not divide the "
            f"rows of {tuple(shape)} into groups"
        )
    if not scales.isfinite().all() or scales.min() < 0:
        raise ElmoxError(
            f"{path}: {name}{SCALES} contains NaN, infinite or negative values: the file is damaged"
        )
    return scales
