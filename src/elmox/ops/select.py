"""Which fast path runs: the packed one in float32 on a CPU that has oneDNN, else the batched one.

Kernels may hold copies of the weights. `LstmKernels` makes them when they are first needed and
makes them anew when the weights have changed.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from elmox.ops.lstm import BatchedLstm, LstmKernel, LstmWeights
from elmox.ops.packed_linear import can_pack
from elmox.ops.packed_lstm import PackedLstm


def lstm_kernel(weights: LstmWeights) -> LstmKernel:
    """The fastest kernel for where these weights are."""
    if can_pack(weights.input_weight):
        return PackedLstm(weights)
    return BatchedLstm(weights)


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
