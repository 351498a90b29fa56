"""Where a model computes, and in which precision."""

import torch

from elmox.errors import Argument, ArgumentError
from elmox.kernels.linear.cpu_int8 import require_int8

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}


def default_device() -> str:
    """Return "cuda" if there is a GPU, otherwise "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def resolve_device(device: str | torch.device | None = None) -> torch.device:
    """Return a device that can compute.

    Args:
        device: "cpu", "cuda", "cuda:1", ...; None for a GPU if there is one.

    Raises:
        ArgumentError: if there is no such device, or it holds no numbers, as "meta".
    """
    name = default_device() if device is None else str(device)
    try:
        number = torch.zeros((), device=name)
    except (RuntimeError, AssertionError) as error:  # a torch without CUDA asserts that it has it
        reason = str(error).splitlines()[0]
        raise ArgumentError("{}: {}", Argument("device", name), reason) from error
    if number.is_meta:
        raise ArgumentError(
            "{} holds shapes without numbers: use a device that computes, such as cpu",
            Argument("device", name),
        )
    return number.device


def device_for(dtype: str | torch.dtype, device: str | torch.device | None = None) -> torch.device:
    """Return the device for a precision: without a choice a GPU if there is one, CPU for int8."""
    if resolve_dtype(dtype) == torch.int8:
        require_int8(str(device or "cpu"))
        return torch.device("cpu")
    return resolve_device(device)


def resolve_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return the precision of that name: one of `DTYPES`."""
    resolved = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if resolved is None or resolved not in DTYPES.values():
        raise ArgumentError("{}: expected {}", Argument("dtype", dtype), ", ".join(DTYPES))
    return resolved
