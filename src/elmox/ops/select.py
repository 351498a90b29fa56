"""Which fast path runs.

| work | where | path |
|---|---|---|
| reading | float32 on a CPU that has oneDNN | packed weights |
| reading | elsewhere | batched |
| training | a GPU with Triton, not float64 | Triton's point-wise kernels |
| training | elsewhere | plain torch |

The environment variable ELMOX_KERNELS=torch turns Triton off. Kernels may hold copies of the
weights. `LstmKernels` makes them when they are first needed and makes them anew when the weights
have changed.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from elmox.ops.lstm import BatchedLstm, LstmKernel, LstmWeights
from elmox.ops.lstm_pointwise import Pointwise, TorchPointwise
from elmox.ops.packed_linear import can_pack
from elmox.ops.packed_lstm import PackedLstm

FORCE = "ELMOX_KERNELS"


def lstm_kernel(weights: LstmWeights) -> LstmKernel:
    """The fastest kernel for where these weights are."""
    if can_pack(weights.input_weight):
        return PackedLstm(weights)
    return BatchedLstm(weights)


def lstm_pointwise(like: Tensor) -> Pointwise:
    """The fastest point-wise half of a training step for tensors like this one."""
    if _why_not_triton(like) is None:
        from elmox.ops.lstm_triton import TritonPointwise

        return TritonPointwise()
    return TorchPointwise()


def paths(like: Tensor) -> dict[str, str]:
    """Which path reads and which trains with weights like this one, and why, in words."""
    reading = "packed weights (oneDNN)"
    if not can_pack(like):
        reading = "batched products (packed weights are for float32 on a CPU with oneDNN)"
    reason = _why_not_triton(like)
    training = "Triton kernels" if reason is None else f"plain torch ({reason})"
    return {"reading": reading, "training": training}


def _why_not_triton(like: Tensor) -> str | None:
    if like.device.type != "cuda":
        return f"Triton is for GPUs, not for {like.device.type}"
    if like.dtype == torch.float64:
        return "Triton's kernels compute in float32"
    if os.environ.get(FORCE) == "torch":
        return f"{FORCE}=torch"
    return None if find_spec("triton") else "Triton is not installed"


class LstmKernels:
    """The kernels of a stack of layers. Copies and pickles of it start empty."""

    def __init__(self) -> None:
        self._version: Hashable = None
        self._kernels: list[LstmKernel] = []

    def get(
        self, version: Hashable, weights: Callable[[], Sequence[LstmWeights]]
    ) -> list[LstmKernel]:
        """Kernels for this version of the weights."""
        if version != self._version:
            self._kernels = [lstm_kernel(layer) for layer in weights()]
            self._version = version
        return self._kernels

    def __getstate__(self) -> dict[str, Any]:
        return {"_version": None, "_kernels": []}
