"""Clip gradients and update arrays, by plain torch or by Triton kernels.

On a GPU with Triton this takes few launches, and the host never waits for the device: whether to
clip or to skip is decided there.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from elmox.kernels.availability import why_not_triton
from elmox.kernels.row_update.plain import Adagrad, AdamW, Update, update_plainly


@torch.no_grad()
def update_arrays(
    updates: Sequence[Update],
    rule: Adagrad | AdamW,
    norm: Tensor,
    skip: Tensor,
    clip_norm: float = 0.0,
) -> None:
    """Update arrays and their state in place. Gradients are overwritten.

    Args:
        updates: the arrays.
        rule: the optimizer.
        norm: () global norm of the gradients.
        skip: () float32; with 1 nothing is updated.
        clip_norm: scale the gradients down to this global norm; 0 for no clipping.
    """
    if why_not_triton(norm) is None:
        _update_on_gpu(updates, rule, norm, skip, clip_norm)
        return
    if skip.item():  # on a CPU this does not wait
        return
    if clip_norm and norm.item() > clip_norm:
        for update in updates:
            update.gradient.values.mul_(clip_norm / norm.item())
    for update in updates:
        update_plainly(update, rule)


def _update_on_gpu(
    updates: Sequence[Update], rule: Adagrad | AdamW, norm: Tensor, skip: Tensor, clip_norm: float
) -> None:
    """The same in few launches: torch's fused AdamW for whole arrays, Triton for the rest."""
    from elmox.kernels.row_update.triton_kernels import Brake, adagrad, adamw

    divisor = (norm / (clip_norm or math.inf)).clamp_(min=1.0)
    brake = Brake(divisor, skip)
    whole = []
    for update in updates:
        weight, slots, gradient = update
        if isinstance(rule, Adagrad):
            adagrad(weight, slots["sum"], gradient.values, gradient.rows, brake, rule.lr)
        elif gradient.rows is None:
            whole.append(update)
        else:
            moments = (slots["mean"], slots["square"])
            adamw(weight, moments, gradient.values, gradient.rows, brake, rule.factors())
    if whole and isinstance(rule, AdamW):
        fused_adamw(whole, rule, divisor, skip)
    # Neither kernel counts as a write for torch, on which `Derived` values depend.
    torch.autograd.graph.increment_version([update.weight for update in updates])


def fused_adamw(updates: Sequence[Update], rule: AdamW, divisor: Tensor, skip: Tensor) -> None:
    """Update whole arrays by torch's fused AdamW.

    Args:
        updates: with gradients of whole arrays.
        rule: AdamW's numbers.
        divisor: () by which gradients are divided.
        skip: () float32; with 1 nothing is updated.
    """
    time = torch.full((), float(rule.time), device=divisor.device)
    torch._fused_adamw_(
        [update.weight for update in updates],
        [update.gradient.values for update in updates],
        [update.slots["mean"] for update in updates],
        [update.slots["square"] for update in updates],
        [],
        [time] * len(updates),
        lr=rule.lr,
        beta1=rule.betas[0],
        beta2=rule.betas[1],
        weight_decay=rule.weight_decay,
        eps=rule.eps,
        amsgrad=False,
        maximize=False,
        grad_scale=divisor,
        found_inf=skip,
    )
