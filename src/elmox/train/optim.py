"""Adagrad exactly as published, and AdamW; the learning rate's schedule; clipping.

Both update whole arrays or only some rows of one: sampled softmax touches a few thousand rows of a
matrix with hundreds of thousands. For Adagrad a row without gradient stays as it is anyway. AdamW
leaves such a row and its moments alone, as torch's SparseAdam does.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmox.train.recipe import OptimRecipe

Slots = dict[str, Tensor]  # what an optimiser remembers of one array


@dataclass(frozen=True)
class Gradient:
    """The gradient of an array, or of some of its rows."""

    values: Tensor  # the array's shape, or (U, ...)
    rows: Tensor | None = None  # (U,) distinct


def learning_rate(recipe: OptimRecipe, step: int, num_steps: int) -> float:
    """The rate of a step (counted from 0) of `num_steps`."""
    if step < recipe.warmup:
        return recipe.lr * (step + 1) / recipe.warmup
    if recipe.schedule == "constant":
        return recipe.lr
    done = (step - recipe.warmup) / max(1, num_steps - recipe.warmup)
    share = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return recipe.lr * (recipe.final_lr + (1.0 - recipe.final_lr) * share)


def global_norm(gradients: Iterable[Tensor]) -> Tensor:
    """The Euclidean norm of all gradients together."""
    norms = [torch.linalg.vector_norm(values, dtype=torch.float32) for values in gradients]
    return torch.stack(norms).square().sum().sqrt()


class Optimizer:
    """Moves named arrays. What it remembers is in `slots`, so that it can be stored."""

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
    def step(self, gradients: Mapping[str, Gradient], lr: float, number: int) -> None:
        """Update number `number`, counted from 0."""
        for name, gradient in gradients.items():
            parameter, slots = self._parameters[name], self.slots[name]
            if self._recipe.name == "adagrad":
                _adagrad(parameter, slots, gradient, lr)
            else:
                _adamw(parameter, slots, gradient, lr, self._recipe, number + 1)


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
    first, second = recipe.betas
    mean, square = slots["mean"], slots["square"]
    if rows is not None:
        mean, square = mean[rows], square[rows]
    mean.lerp_(values, 1.0 - first)
    square.mul_(second).addcmul_(values, values, value=1.0 - second)
    size = (square / (1.0 - second**time)).sqrt_().add_(recipe.eps)
    rate = lr / (1.0 - first**time)
    decay = 1.0 - lr * recipe.weight_decay
    if rows is None:
        p.mul_(decay).addcdiv_(mean, size, value=-rate)
        return
    slots["mean"][rows], slots["square"][rows] = mean, square
    p[rows] = p[rows].mul_(decay).addcdiv_(mean, size, value=-rate)
