"""Named arrays: safetensors files, and a digest that identifies them."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.io.inputs import require_regular

_MAX_HEADER_BYTES = 2**22  # some 40,000 arrays
_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def read_tensors(path: Path, *, integers: bool = False) -> dict[str, Tensor]:
    """Return all arrays of a file; errors name the file.

    Args:
        path: a safetensors file.
        integers: accept int8 next to floating point.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _check_header(path)
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
        raise ElmoxError(f"{path} is damaged or cut short: {error}") from error
    allowed = (*_DTYPES, torch.int8) if integers else _DTYPES
    for name, tensor in tensors.items():
        if tensor.dtype not in allowed:
            raise ElmoxError(f"{path}: {name} holds {tensor.dtype}, expected floating point")
    return tensors


def checked_tensor(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], path: Path
) -> Tensor:
    """Return one tensor of a small file, or raise an error that names it."""
    if name not in tensors:
        raise ElmoxError(f"{path} lacks {name}")
    tensor = tensors[name]
    if tensor.shape != shape:
        raise ElmoxError(f"{path}: {name} has shape {tuple(tensor.shape)}, expected {shape}")
    if not torch.isfinite(tensor).all():
        raise ElmoxError(f"{path}: {name} contains NaN or infinite values")
    return tensor


def _check_header(path: Path) -> None:
    """Refuse a header that is longer than the file, or lists more arrays than any model has."""
    size = require_regular(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise ElmoxError(f"{path} cannot be read: {error.strerror or error}") from error
    if length > min(size, _MAX_HEADER_BYTES):
        raise ElmoxError(
            f"{path} is damaged or cut short: a file of {size:,} bytes declares a header of "
            f"{length:,}, expected at most {_MAX_HEADER_BYTES:,}"
        )


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write arrays to a file; a full disk is an OSError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path, metadata={"format": "pt"})
    except SafetensorError as error:  # a full disk, as its message says
        raise OSError(str(error)) from error


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of the names, shapes and values, in float32."""
    hasher = blake2b(digest_size=16)
    for name in sorted(tensors):
        hasher.update(f"{name} {tuple(tensors[name].shape)}\n".encode())
        hasher.update(tensors[name].detach().float().cpu().flatten().numpy().data)
    return hasher.hexdigest()
