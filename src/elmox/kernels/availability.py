"""Return whether Triton kernels can run, and the reason if not.

The environment variable ELMOX_KERNELS overrides the choice: `torch` turns all Triton kernels off,
`pointwise` only the fused LSTM kernels.
"""

import os
import shutil
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from elmox.errors import ElmoxError

FORCE = "ELMOX_KERNELS"
_FORCED = ("", "torch", "pointwise")


def why_not_triton(like: Tensor) -> str | None:
    """Return why Triton kernels cannot run on tensors like this one; None if they can."""
    if like.device.type != "cuda":
        return f"Triton is for GPUs, not for {like.device.type}"
    if like.dtype == torch.float64:
        return "Triton's kernels compute in float32"
    if forced_kernels() == "torch":
        return f"{FORCE}=torch"
    current = torch.cuda.current_device()
    if like.device.index not in (None, current):
        return f"kernels run on the current GPU, cuda:{current}: see torch.cuda.set_device"
    return _why_not_triton_on(current)


@cache
def _why_not_triton_on(gpu: int) -> str | None:
    if not find_spec("triton"):
        return "Triton is not installed"
    if torch.version.hip is not None:
        return "elmox's kernels are for NVIDIA's GPUs"
    if torch.cuda.get_device_capability(gpu)[0] < 8:
        return "elmox's kernels are for GPUs of compute capability 8 and above"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "Triton needs a C compiler, such as gcc"
    return None


def forced_kernels() -> str:
    """Return the value of ELMOX_KERNELS, checked."""
    value = os.environ.get(FORCE, "")
    if value not in _FORCED:
        raise ElmoxError(f"{FORCE}={value}: expected torch, pointwise or an empty value")
    return value
