"""Which fast path runs; `kernels/paths.py` says it in words.

| work | where | path |
|---|---|---|
| reading | float32 on a CPU that has oneDNN | packed weights |
| reading | int8, on such a CPU | packed weights of 8 bits |
| reading | 16 bits on a GPU with Triton | fused kernels |
| reading | elsewhere | batched products |
| training | 16 bits on a GPU with Triton | fused kernels, recorded as CUDA graphs |
| training | float32 on a GPU with Triton | plain products, point-wise kernels |
| training | elsewhere | plain torch |
| tasks: CRF, LSTMs | float32 or 16 bits on a GPU with Triton | a kernel for all steps |
| tasks: CRF, LSTMs | elsewhere | plain torch, which also reads GRUs |

The environment variable ELMOX_KERNELS forces one: `torch` turns Triton off, `pointwise` only the
fused kernels. Kernels may hold copies of the weights: keep them in a `Derived`.
"""

import os
import shutil
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.kernels.linear.int8 import Int8Linear, require_int8
from elmox.kernels.linear.packed import can_pack
from elmox.kernels.lstm.packed import PackedLstm
from elmox.kernels.lstm.plain import BatchedLstm, LstmKernel, LstmWeights
from elmox.kernels.lstm.pointwise import Pointwise, TorchPointwise

FORCE = "ELMOX_KERNELS"
_FORCED = ("", "torch", "pointwise")


def lstm_kernel(weights: LstmWeights, int8: bool = False) -> LstmKernel:
    """The fastest kernel for where these weights are; with `int8`, the one in 8-bit integers."""
    if int8:
        require_int8(str(weights.input_weight.device))
        return PackedLstm(weights, Int8Linear)
    if can_pack(weights.input_weight):
        return PackedLstm(weights)
    if why_not_fused(weights.input_weight, weights) is None:
        from elmox.kernels.lstm.fused import FusedLstm

        return FusedLstm(weights)
    return BatchedLstm(weights)


def lstm_pointwise(like: Tensor) -> Pointwise:
    """The fastest point-wise half of a training step for tensors like this one."""
    if why_not_triton(like) is None:
        from elmox.kernels.lstm.pointwise_triton import TritonPointwise

        return TritonPointwise()
    return TorchPointwise()


def why_not_triton(like: Tensor) -> str | None:
    """Why Triton's kernels are not for tensors like this one; None if they are."""
    if like.device.type != "cuda":
        return f"Triton is for GPUs, not for {like.device.type}"
    if like.dtype == torch.float64:
        return "Triton's kernels compute in float32"
    if _forced() == "torch":
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


def why_not_fused(like: Tensor, weights: LstmWeights) -> str | None:
    """Why the fused kernels are not for a layer like this and tensors like this one."""
    reason = why_not_triton(like)
    if reason is not None:
        return reason
    if _forced() == "pointwise":
        return f"{FORCE}=pointwise"
    if like.element_size() != 2:
        return "the fused kernels are for 16 bits"
    # Others have too little shared memory for the kernels' tiles.
    if torch.cuda.get_device_capability(like.device)[0] not in (9, 10):
        return "the fused kernels are for GPUs of compute capability 9 and 10"
    if weights.projection is None:
        return "the fused kernels are for layers with a projection"
    dim, num_cells = weights.projection.shape[1:]
    if num_cells % 32 or dim % 8 or weights.input_weight.shape[2] % 8:
        return "the fused kernels are for multiples of 32 cells and of 8 dimensions"
    return None


def _forced() -> str:
    value = os.environ.get(FORCE, "")
    if value not in _FORCED:
        raise ElmoxError(f"{FORCE}={value}: expected torch or pointwise, or nothing for the best")
    return value
