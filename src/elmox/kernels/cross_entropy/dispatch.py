"""Full and sampled softmax losses, by plain torch or by Triton kernels.

Shapes: D directions, N positions, P projection, V words, U rows of the softmax,
S candidates.
"""

import torch
from torch import Tensor

from elmox.kernels.availability import why_not_triton
from elmox.kernels.cross_entropy.plain import LossInputs, Sampled, plain_cross_entropy


def full_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, chunk: int | None = None
) -> Tensor:
    """Return the sum of the negative log-likelihoods of one word per position, by the full softmax.

    Args:
        hidden: (N, P).
        weight: (V, P).
        bias: (V,).
        targets: (N,) word ids.
        chunk: positions processed together; chosen for the device by default.

    Returns:
        () float32, or float64 if `hidden` is.
    """
    if _can_fuse(hidden):
        from elmox.kernels.cross_entropy.triton_loss import fused_cross_entropy

        return fused_cross_entropy(
            LossInputs(hidden[None], weight, bias, targets[None], None, chunk)
        )
    return plain_cross_entropy(LossInputs(hidden, weight, bias, targets, None, chunk))


def sampled_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    candidates: Tensor,
    target_log_expected: Tensor,
    candidate_log_expected: Tensor,
    chunk: int | None = None,
) -> Tensor:
    """Return the sum of the negative log-likelihoods of one word per position among candidates.

    Each direction has its own candidates; all share the rows.

    Args:
        hidden: (D, N, P).
        weight: (U, P) rows of the softmax, including those of the targets and candidates.
        bias: (U,).
        targets: (D, N) indices into the U rows.
        candidates: (D, S) indices into the U rows, distinct in each direction.
        target_log_expected: (D, N) see `LogUniformSampler.log_expected`.
        candidate_log_expected: (D, S) likewise.
        chunk: positions of a direction processed together; chosen for the device by default.

    Returns:
        () float32, or float64 if `hidden` is.
    """
    sampled = Sampled(candidates, target_log_expected, candidate_log_expected)
    if _can_fuse(hidden):
        from elmox.kernels.cross_entropy.triton_loss import fused_cross_entropy

        return fused_cross_entropy(LossInputs(hidden, weight, bias, targets, sampled, chunk))
    # Not hidden[direction]: its gradient would first be filled up with zeros.
    directions = zip(hidden.unbind(), targets.unbind(), sampled.unbind(), strict=True)
    losses = [
        plain_cross_entropy(LossInputs(vectors, weight, bias, words.long(), rivals, chunk))
        for vectors, words, rivals in directions
    ]
    return torch.stack(losses).sum()


def _can_fuse(hidden: Tensor) -> bool:
    """Return whether the kernels apply. They hold exponentials, which are beyond float16."""
    fits = hidden.dtype in (torch.float32, torch.bfloat16)
    return fits and hidden.numel() > 0 and why_not_triton(hidden) is None
