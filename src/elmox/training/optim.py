"""Adagrad exactly as published, AdamW, learning rate schedules and clipping.

Both optimizers update whole arrays or only some rows of one: sampled softmax touches a few thousand
rows of a matrix with hundreds of thousands. Adagrad never changes a row without gradient. AdamW
leaves such a row and its moments unchanged, as torch's SparseAdam does.

`_adagrad` and `_adamw` are the readable reference. With Triton and a GPU the same is computed in a
few kernels, and the host never waits for the device.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmox.kernels.dispatch import why_not_triton
from elmox.training.recipe import OptimRecipe

Slots = dict[str, Tensor]  # the optimizer's state of one array, by name


@dataclass(frozen=True)
class Gradient:
    """The gradient of an array, or of some of its rows."""

    values: Tensor  # the array's shape, or (U, ...)
    rows: Tensor | None = None  # (U,) distinct


def learning_rate(recipe: OptimRecipe, step: int, num_steps: int) -> float:
    """Return the learning rate of a step (counted from 0) of `num_steps`."""
    if step < recipe.warmup:
        return recipe.lr * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.lr
    if recipe.schedule == "wsd":
        share = min(1.0, (num_steps - step) / max(1, recipe.decay_steps))
        return recipe.lr * (recipe.final_lr + (1.0 - recipe.final_lr) * share)
    done = (step - recipe.warmup) / max(1, num_steps - recipe.warmup)
    share = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return recipe.lr * (recipe.final_lr + (1.0 - recipe.final_lr) * share)


def global_norm(gradients: Iterable[Tensor]) -> Tensor:
    """Return the Euclidean norm of all gradients together, () float32."""
    norms = torch._foreach_norm(list(gradients), 2, dtype=torch.float32)
    return torch.stack(norms).square().sum().sqrt()


class Optimizer:
    """Updates named arrays.

    Attributes:
        slots: the optimizer's state of each array, to be stored in checkpoints.
    """

    def __init__(self, recipe: OptimRecipe, parameters: Mapping[str, Tensor]) -> None:
        self._recipe = recipe
        self._parameters = dict(parameters)
        start = {
            "adagrad": {"sum": recipe.initial_accumulator},
            "adamw": {"mean": 0.0, "square": 0.0},
        }[recipe.name]
        self.slots: dict[str, Slots] = {
            name: {slot: torch.full_like(p, value) for slot, value in start.items()}
            for name, p in self._parameters.items()
        }

    @torch.no_grad()
    def step(
        self,
        gradients: Mapping[str, Gradient],
        lr: float,
        number: int,
        norm: Tensor,
        skip: Tensor,
    ) -> None:
        """Update the arrays; the gradients are overwritten.

        Args:
            gradients: by the names of the arrays.
            lr: learning rate.
            number: number of updates before this one.
            norm: () global norm of the gradients, which are clipped to the recipe's.
            skip: () float32; with 1 nothing is updated.
        """
        if why_not_triton(norm) is None:
            self._step_on_gpu(gradients, lr, number + 1, norm, skip)
            return
        if skip.item():  # no wait on a CPU
            return
        clip = self._recipe.clip_norm
        if clip and norm.item() > clip:
            for gradient in gradients.values():
                gradient.values.mul_(clip / norm.item())
        for name, gradient in gradients.items():
            parameter, slots = self._parameters[name], self.slots[name]
            if self._recipe.name == "adagrad":
                _adagrad(parameter, slots, gradient, lr)
            else:
                _adamw(parameter, slots, gradient, lr, self._recipe, number + 1)

    def _step_on_gpu(
        self, gradients: Mapping[str, Gradient], lr: float, time: int, norm: Tensor, skip: Tensor
    ) -> None:
        """Update in few launches: torch's fused AdamW for whole arrays, Triton for the rest."""
        from elmox.kernels.row_update import triton_kernels as triton

        recipe = self._recipe
        divisor = (norm / (recipe.clip_norm or math.inf)).clamp_(min=1.0)
        brake = triton.Brake(divisor, skip)
        whole = []
        for name, gradient in gradients.items():
            p, slots = self._parameters[name], self.slots[name]
            if recipe.name == "adagrad":
                triton.adagrad(p, slots["sum"], gradient.values, gradient.rows, brake, lr)
            elif gradient.rows is None:
                whole.append((p, gradient.values, slots["mean"], slots["square"]))
            else:
                moments = (slots["mean"], slots["square"])
                numbers = _adamw_numbers(recipe, lr, time)
                triton.adamw(p, moments, gradient.values, gradient.rows, brake, numbers)
        if whole:
            _fused_adamw(whole, recipe, lr, time, divisor, skip)
        # Neither kernel counts as a change for torch, but caches of derived weights depend on it.
        torch.autograd.graph.increment_version([self._parameters[name] for name in gradients])


def _adagrad(p: Tensor, slots: Slots, gradient: Gradient, lr: float) -> None:
    values, rows = gradient.values, gradient.rows
    if rows is None:
        slots["sum"].addcmul_(values, values)
        p.addcdiv_(values, slots["sum"].sqrt(), value=-lr)
        return
    total = slots["sum"][rows].addcmul_(values, values)
    slots["sum"][rows] = total
    p.index_add_(0, rows, values / total.sqrt_(), alpha=-lr)


def _adamw(
    p: Tensor, slots: Slots, gradient: Gradient, lr: float, recipe: OptimRecipe, time: int
) -> None:
    values, rows = gradient.values, gradient.rows
    new_share, kept_square, new_square, correction, eps, rate, decay = _adamw_numbers(
        recipe, lr, time
    )
    mean, square = slots["mean"], slots["square"]
    if rows is not None:
        mean, square = mean[rows], square[rows]
    mean.lerp_(values, new_share)
    square.mul_(kept_square).addcmul_(values, values, value=new_square)
    size = (square / correction).sqrt_().add_(eps)
    if rows is None:
        p.mul_(decay).addcdiv_(mean, size, value=-rate)
        return
    slots["mean"][rows], slots["square"][rows] = mean, square
    p[rows] = p[rows].mul_(decay).addcdiv_(mean, size, value=-rate)


def _adamw_numbers(recipe: OptimRecipe, lr: float, time: int) -> tuple[float, ...]:
    """Return the scalars of AdamW's formula, in the order of `kernels.row_update`'s `adamw`."""
    first, second = recipe.betas
    rate, decay = lr / (1.0 - first**time), 1.0 - lr * recipe.weight_decay
    return 1.0 - first, second, 1.0 - second, 1.0 - second**time, recipe.eps, rate, decay


def _fused_adamw(
    arrays: list[tuple[Tensor, Tensor, Tensor, Tensor]],
    recipe: OptimRecipe,
    lr: float,
    time: int,
    divisor: Tensor,
    skip: Tensor,
) -> None:
    """Update whole arrays by AdamW; each is given as (weight, gradient, mean, square)."""
    weights, gradients, means, squares = map(list, zip(*arrays, strict=True))
    number = torch.full((), float(time), device=divisor.device)
    torch._fused_adamw_(
        weights,
        gradients,
        means,
        squares,
        [],
        [number] * len(weights),
        lr=lr,
        beta1=recipe.betas[0],
        beta2=recipe.betas[1],
        weight_decay=recipe.weight_decay,
        eps=recipe.eps,
        amsgrad=False,
        maximize=False,
        grad_scale=divisor,
        found_inf=skip,
    )
