"""Choose the fastest LSTM layer for a device and precision.

| work | where | path |
|---|---|---|
| inference | float32 on a CPU with oneDNN | packed weights, `cpu_packed.py` |
| inference | int8 on such a CPU | packed 8-bit weights for large products, `cpu_packed.py` |
| inference | 16 bits on a GPU with Triton | fused kernels, `triton_layer.py` |
| inference | elsewhere | batched products, `plain.py` |
| training | 16 bits on a GPU with Triton | fused kernels as CUDA graphs, `triton_rows.py` |
| training | float32 on a GPU with Triton | plain products, `triton_pointwise.py` between them |
| training | elsewhere | plain torch, `plain_rows.py` |

Inference kernels may hold copies of the weights: keep them in a `Derived`.
"""

import torch
from torch import Tensor

from elmox.kernels.availability import FORCE, forced_kernels, why_not_triton
from elmox.kernels.linear.cpu_int8 import require_int8
from elmox.kernels.linear.cpu_packed import can_pack
from elmox.kernels.lstm.cpu_packed import PackedLstm
from elmox.kernels.lstm.plain import BatchedLstm, LstmKernel, LstmWeights
from elmox.kernels.lstm.plain_pointwise import Pointwise, TorchPointwise
from elmox.kernels.lstm.plain_rows import PlainRows


def lstm_kernel(weights: LstmWeights, int8: bool = False) -> LstmKernel:
    """Return the fastest inference kernel for these weights.

    Args:
        weights: one layer.
        int8: compute the products in 8-bit integers.
    """
    if int8:
        require_int8(str(weights.input_weight.device))
        return PackedLstm(weights, int8=True)
    if can_pack(weights.input_weight):
        return PackedLstm(weights)
    if why_not_fused(weights.input_weight, weights) is None:
        from elmox.kernels.lstm.triton_layer import FusedLstm

        return FusedLstm(weights)
    return BatchedLstm(weights)


def lstm_rows(
    inputs: Tensor,
    hidden: Tensor,
    cell: Tensor,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    projection: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run T steps of every row, for training. All tensor arguments get gradients.

    Args:
        inputs: (D, T, B, P_in).
        hidden: (D, B, P) start state.
        cell: (D, B, C) start state; float32 where the rest is bfloat16.
        input_weight: (D, 4C, P_in); the weights may be of a higher precision than the inputs.
        recurrent_weight: (D, 4C, P).
        bias: (D, 4C), forget bias included.
        projection: (D, P, C); None where the cells are the output, which is then not clipped.
        cell_clip: bound of the cells, or None.
        proj_clip: bound of the projection, or None.

    Returns:
        Outputs (D, T, B, P); hidden (D, B, P) and cell (D, B, C) after the last step.
    """
    if projection is None:
        proj_clip = None
    tensors = (input_weight, recurrent_weight, bias, projection)
    clips = (cell_clip, proj_clip)
    outputs: tuple[Tensor, Tensor, Tensor]
    if why_not_fused(inputs, LstmWeights(*tensors, *clips)) is None:
        from elmox.kernels.lstm.triton_rows import FusedRows

        outputs = FusedRows.apply(inputs, hidden, cell, *tensors, *clips)  # type: ignore[no-untyped-call]
        return outputs
    low = [None if tensor is None else tensor.to(inputs.dtype) for tensor in tensors]
    pointwise = lstm_pointwise(inputs)
    outputs = PlainRows.apply(inputs, hidden, cell, *low, *clips, pointwise)  # type: ignore[no-untyped-call]
    return outputs


def lstm_pointwise(like: Tensor) -> Pointwise:
    """Return the fastest point-wise half of a training step for tensors like this one."""
    if why_not_triton(like) is None:
        from elmox.kernels.lstm.triton_pointwise import TritonPointwise

        return TritonPointwise()
    return TorchPointwise()


def why_not_fused(like: Tensor, weights: LstmWeights) -> str | None:
    """Return why the fused kernels cannot run such a layer on tensors like this one."""
    reason = why_not_triton(like)
    if reason is not None:
        return reason
    if forced_kernels() == "pointwise":
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
