"""The training loss: what each step minimises, and the softmax's gradient.

| loss | scores the true word against |
|---|---|
| sampled | words drawn log-uniformly, one draw a direction and step, shared by all processes |
| full | all words |
| adaptive | clusters of words of falling frequency |

Shapes: D directions, N positions, P projection, V words, U rows of the softmax that a step touches.
"""

from typing import Protocol

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax
from elmox.train.cross_entropy import full_cross_entropy, sampled_cross_entropy
from elmox.train.distributed import Processes
from elmox.train.log_uniform import LogUniformSampler
from elmox.train.optim import Gradient
from elmox.train.recipe import SoftmaxRecipe


class Objective(Protocol):
    """A loss over one step, which may come in several pieces."""

    def begin(self, step: int, targets: Tensor) -> None:
        """Start a step; targets (D, N) are all that this process will ask for."""

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Sum of the negative log-likelihoods of a piece: hidden (D, n, P), targets (D, n)."""

    def gradients(self) -> dict[str, Gradient]:
        """The softmax's gradient by name, the mean over all processes; ends the step."""


class SampledObjective:
    """Sampled softmax. Only the rows that a step touches are gathered, exchanged and updated."""

    def __init__(
        self, softmax: FullSoftmax, num_samples: int, seed: int, processes: Processes
    ) -> None:
        self._softmax, self._seed, self._processes = softmax, seed, processes
        self._sampler = LogUniformSampler(softmax.num_words, num_samples)

    def begin(self, step: int, targets: Tensor) -> None:
        """See `Objective`."""
        device = targets.device
        self._drawn = [
            self._sampler.draw(self._seed, step, direction, device)
            for direction in range(len(targets))
        ]
        touched = torch.zeros(self._softmax.num_words, dtype=torch.uint8, device=device)
        for ids in (*(drawn.ids for drawn in self._drawn), targets.flatten()):
            touched[ids] = 1
        self._processes.any(touched)
        self._places = touched.cumsum(0) - 1  # of a word among the touched rows
        self._rows = touched.nonzero().squeeze(1)
        self._weight = self._softmax.weight.detach()[self._rows].requires_grad_()
        self._bias = self._softmax.bias.detach()[self._rows].requires_grad_()

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See `Objective`."""
        losses = [
            sampled_cross_entropy(
                hidden[direction],
                self._weight,
                self._bias,
                self._places[targets[direction]],
                self._places[drawn.ids],
                self._sampler.log_expected(targets[direction], drawn.tries),
                self._sampler.log_expected(drawn.ids, drawn.tries),
            )
            for direction, drawn in enumerate(self._drawn)
        ]
        return torch.stack(losses).sum()

    def gradients(self) -> dict[str, Gradient]:
        """See `Objective`."""
        found = {}
        for name, rows in (("weight", self._weight), ("bias", self._bias)):
            assert rows.grad is not None
            found[name] = Gradient(self._processes.mean(rows.grad), self._rows)
        return found


class DenseObjective:
    """Full or adaptive softmax: every row has a gradient."""

    def __init__(self, softmax: FullSoftmax | AdaptiveSoftmax, processes: Processes) -> None:
        self._softmax, self._processes = softmax, processes

    def begin(self, step: int, targets: Tensor) -> None:
        """See `Objective`."""
        self._softmax.zero_grad()

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See `Objective`."""
        softmax, flat = self._softmax, hidden.flatten(0, 1)
        if isinstance(softmax, FullSoftmax):
            return full_cross_entropy(flat, softmax.weight, softmax.bias, targets.flatten())
        # In float32: its clusters are gathered and scattered, which bfloat16 would round twice.
        log_probs: Tensor = softmax.layer(flat.float(), targets.flatten()).output
        return -log_probs.sum()

    def gradients(self) -> dict[str, Gradient]:
        """See `Objective`."""
        found = {}
        for name, parameter in self._softmax.named_parameters():
            # A cluster that no target of this process fell into has no gradient yet.
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            found[name] = Gradient(self._processes.mean(grad))
        return found


def make_softmax(recipe: SoftmaxRecipe, num_words: int, dim: int) -> FullSoftmax | AdaptiveSoftmax:
    """The output layer that a recipe asks for, without weights yet."""
    if recipe.loss == "adaptive":
        return AdaptiveSoftmax(num_words, dim, recipe.cutoffs)
    return FullSoftmax(num_words, dim)


def make_objective(
    recipe: SoftmaxRecipe, softmax: FullSoftmax | AdaptiveSoftmax, seed: int, processes: Processes
) -> Objective:
    """The loss that a recipe asks for."""
    if isinstance(softmax, AdaptiveSoftmax) != (recipe.loss == "adaptive"):
        kind = "adaptive" if isinstance(softmax, AdaptiveSoftmax) else "full"
        raise ElmoxError(f"softmax.loss is {recipe.loss!r}, but the model's softmax is {kind}")
    if recipe.loss == "sampled":
        assert isinstance(softmax, FullSoftmax)
        samples = min(recipe.samples, softmax.num_words)
        return SampledObjective(softmax, samples, seed, processes)
    return DenseObjective(softmax, processes)
