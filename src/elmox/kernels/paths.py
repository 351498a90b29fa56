"""Descriptions of the path that each dispatch chooses, for `elmox info` and benchmarks."""

import torch
from torch import Tensor

from elmox.kernels.availability import why_not_triton
from elmox.kernels.linear.cpu_int8 import why_not_int8
from elmox.kernels.linear.cpu_packed import can_pack
from elmox.kernels.lstm.dispatch import why_not_fused
from elmox.kernels.lstm.plain import LstmWeights

_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def like(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return an empty tensor that decides which path is chosen."""
    return torch.empty(0, device=device, dtype=dtype)


def paths(weights: LstmWeights, device: torch.device) -> dict[str, str]:
    """Return the inference and the training path of such a layer on a device, with reasons."""
    likes = {name: like(device, dtype) for name, dtype in _PRECISIONS.items()}
    inference = [f"{name}: {inference_path(tensor, weights)}" for name, tensor in likes.items()]
    training = [f"{name}: {training_path(tensor, weights)}" for name, tensor in likes.items()]
    if device.type == "cpu":
        reason = why_not_int8()
        inference.append(f"int8: {'packed 8-bit weights' if reason is None else reason}")
    return {"inference": "; ".join(inference), "training": "; ".join(training)}


def inference_path(like: Tensor, weights: LstmWeights) -> str:
    """Describe the path of an LSTM layer without gradients."""
    if like.dtype == torch.int8:
        return "packed 8-bit weights (oneDNN)"
    if can_pack(like):
        return "packed weights (oneDNN)"
    reason = why_not_fused(like, weights)
    return "fused kernels" if reason is None else f"batched products ({reason})"


def training_path(like: Tensor, weights: LstmWeights) -> str:
    """Describe the path of an LSTM layer in training."""
    reason = why_not_fused(like, weights)
    if reason is None:
        return "fused kernels, recorded as CUDA graphs"
    kind = "point-wise kernels" if why_not_triton(like) is None else "plain torch"
    return f"{kind} ({reason})"


def word_inference_path(like: Tensor) -> str:
    """Describe the path of the character CNN and the highways without gradients."""
    reason = why_not_triton(like)
    return "Triton kernels" if reason is None else f"look-up in a table of sums ({reason})"


def word_training_path(like: Tensor) -> str:
    """Describe the path of the character CNN and the highways in training."""
    reason = why_not_triton(like)
    return "Triton kernels" if reason is None else f"plain torch ({reason})"


def uses_table(like: Tensor) -> bool:
    """Return whether convolutions without gradients are looked up in a table of sums."""
    return why_not_triton(like) is not None
