"""Named arrays: in a safetensors file, and told from others by a digest."""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from torch import Tensor

from elmox.errors import ElmoxError


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All arrays of a file; an error that names it where it is damaged or holds no numbers."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        raise ElmoxError(f"{path} does not exist") from None
    except SafetensorError as error:
        raise ElmoxError(f"{path} is damaged or cut short: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ElmoxError(f"{path}: {name} holds {tensor.dtype}, expected floating point")
    return tensors


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write arrays; a full disk is an OSError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, path, metadata={"format": "pt"})
    except SafetensorError as error:  # a full disk; its own words say so
        raise OSError(str(error)) from error


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Identifies names, shapes and values, as they are in float32."""
    found = blake2b(digest_size=16)
    for name in sorted(tensors):
        found.update(f"{name} {tuple(tensors[name].shape)}\n".encode())
        found.update(tensors[name].detach().float().cpu().flatten().numpy().data)
    return found.hexdigest()
