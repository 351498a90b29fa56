"""Muon (Jordan et al. 2024): momentum, orthogonalized, as the update of a weight matrix.

Each matrix is moved by the nearest orthogonal matrix to its momentum, so that all directions of its
input learn at the same speed. The gates of an LSTM are separate matrices, and so are its two
directions. An update is scaled to the root mean square of AdamW's (0.2 of the learning rate; Liu et
al. 2025), so that both optimizers share one rate: vectors, embeddings, filters and the softmax are
updated by AdamW.
"""

import math
import re

import torch
from torch import Tensor

# Coefficients of the quintic Newton-Schulz step: five steps bring every singular value near 1.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NUM_STEPS = 5
_ADAMW_RMS = 0.2

_MATRICES = re.compile(
    r"model\.(lstm\.\d+\.(input_weight|recurrent_weight|projection)"
    r"|token_encoder\.(highways\.\d+\.(carry|transform)|projection)\.weight)"
)
_GATES = re.compile(r"model\.lstm\.\d+\.(input|recurrent)_weight")


def is_matrix(name: str) -> bool:
    """Return whether a parameter consists of matrices that are multiplied with activations."""
    return _MATRICES.fullmatch(name) is not None


def as_matrices(name: str, weight: Tensor) -> Tensor:
    """Return a view of a parameter as single matrices, (M, rows, columns)."""
    if _GATES.fullmatch(name):
        directions, gates, columns = weight.shape
        return weight.view(4 * directions, gates // 4, columns)
    return weight.view(-1, *weight.shape[-2:])


@torch.no_grad()
def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values near 1.

    Args:
        matrices: (M, rows, columns); on a GPU the products run in bfloat16.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    is_tall = x.shape[1] > x.shape[2]
    if is_tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _NEWTON_SCHULZ
    for _ in range(_NUM_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)


@torch.no_grad()
def update_by_muon(
    name: str,
    weight: Tensor,
    momentum: Tensor,
    gradient: Tensor,
    *,
    lr: float,
    beta: float,
    weight_decay: float,
    divisor: Tensor,
    skip: Tensor,
) -> None:
    """Update a parameter and its momentum in place, without waiting for the device.

    Args:
        name: the parameter's name, which says what its matrices are.
        weight: the parameter.
        momentum: moving average of its gradients.
        gradient: of the loss.
        lr: learning rate.
        beta: decay of the momentum.
        weight_decay: as in AdamW.
        divisor: () by which the gradient is divided.
        skip: () float32; with 1 nothing is updated.
    """
    keep = skip > 0
    gradient = gradient / divisor
    new = torch.lerp(gradient, momentum, beta)
    momentum.copy_(torch.where(keep, momentum, new))
    ahead = as_matrices(name, torch.lerp(gradient, new, beta))  # Nesterov's
    scale = lr * _ADAMW_RMS * math.sqrt(max(ahead.shape[1:]))
    update = orthogonalized(ahead).reshape(weight.shape)
    moved = (weight * (1.0 - lr * weight_decay)).add_(update, alpha=-scale)
    weight.copy_(torch.where(keep, weight, moved))
