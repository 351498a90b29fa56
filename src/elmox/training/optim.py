"""Optimizers (Adagrad exactly as published, AdamW), learning rate schedules, gradient norms.

The updates themselves are in `elmox.kernels.row_update`.
"""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from elmox.kernels.row_update.dispatch import update_arrays
from elmox.kernels.row_update.plain import Adagrad, AdamW, Gradient, Update
from elmox.training.recipe import OptimRecipe


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
        self.slots: dict[str, dict[str, Tensor]] = {
            name: {slot: torch.full_like(p, value) for slot, value in start.items()}
            for name, p in self._parameters.items()
        }

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
        updates = [
            Update(self._parameters[name], self.slots[name], gradient)
            for name, gradient in gradients.items()
        ]
        update_arrays(updates, self._rule(lr, number + 1), norm, skip, self._recipe.clip_norm)

    def _rule(self, lr: float, time: int) -> Adagrad | AdamW:
        recipe = self._recipe
        if recipe.name == "adagrad":
            return Adagrad(lr)
        return AdamW(lr, time, recipe.betas, recipe.eps, recipe.weight_decay)
