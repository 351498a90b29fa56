"""The training loss and the gradient of the softmax.

| loss | scores the true word against |
|---|---|
| sampled | words drawn log-uniformly, once per direction and step, shared by all processes |
| full | all words |
| adaptive | clusters of words of falling frequency |

Shapes: D directions, N positions, P projection, V words, U rows of the softmax that a step touches.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.kernels.cross_entropy.dispatch import full_cross_entropy, sampled_cross_entropy
from elmox.kernels.row_update.plain import Gradient
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax
from elmox.training.distributed import Processes
from elmox.training.log_uniform import LogUniformSampler
from elmox.training.recipe import SoftmaxRecipe

# Steps whose candidates are drawn together: a GPU draws many as fast as one.
STEPS_AT_ONCE = {"cuda": 8}


class Objective(Protocol):
    """A loss over one step, which may come in several pieces."""

    def begin(self, step: int, targets: Tensor) -> None:
        """Start a step; targets (D, N) are all of this process's in this step."""

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the summed negative log-likelihood: hidden (D, n, P), targets (D, n)."""

    def gradients(self) -> dict[str, Gradient]:
        """Return the softmax's gradients by name, averaged over processes; ends the step."""


class _Drawn(NamedTuple):
    """The candidates of one step; or of several steps, stacked."""

    ids: Tensor  # (D, S)
    tries: Tensor  # (D, 1)
    log_expected: Tensor  # (D, S)


class _Touched(NamedTuple):
    """The rows of the softmax that a step touches."""

    rows: Tensor  # (U,) word ids, rising
    weight: Tensor  # (U, P) copies that collect gradients
    bias: Tensor  # (U,)
    candidates: Tensor  # (D, S) indices into the rows


class SampledObjective:
    """Sampled softmax. Only the rows that a step touches are gathered, exchanged and updated."""

    def __init__(
        self, softmax: FullSoftmax, num_samples: int, seed: int, processes: Processes
    ) -> None:
        self._softmax, self._seed, self._processes = softmax, seed, processes
        self._sampler = LogUniformSampler(softmax.num_words, num_samples)
        self._steps = range(0)  # for which candidates are drawn
        self._touched: _Touched | None = None  # until their number is known

    def begin(self, step: int, targets: Tensor) -> None:
        """See `Objective`."""
        self._drawn = self._draw(step, len(targets), targets.device)
        # Shifted by one, so that the cumulative sum at a word counts the touched words before it.
        touched = targets.new_zeros(self._softmax.num_words + 1, dtype=torch.uint8)
        for words in (self._drawn.ids, targets):
            touched[1:].index_fill_(0, words.flatten(), 1)
        self._processes.any(touched)
        self._ranks = touched.cumsum(0, dtype=torch.int32)  # indices of touched words
        self._num_touched = _read_later(self._ranks[-1])
        self._touched = None

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See `Objective`."""
        if self._touched is None:
            self._touched = self._gather()
        return sampled_cross_entropy(
            hidden,
            self._touched.weight,
            self._touched.bias,
            self._ranks[targets],
            self._touched.candidates,
            self._sampler.log_expected(targets, self._drawn.tries),
            self._drawn.log_expected,
        )

    def gradients(self) -> dict[str, Gradient]:
        """See `Objective`."""
        assert self._touched is not None
        gradients = {}
        for name, values in (("weight", self._touched.weight), ("bias", self._touched.bias)):
            assert values.grad is not None
            gradients[name] = Gradient(self._processes.mean(values.grad), self._touched.rows)
        return gradients

    def _draw(self, step: int, num_directions: int, device: torch.device) -> _Drawn:
        """Return the candidates of a step; those of its neighbors are drawn with them."""
        if step not in self._steps:
            at_once = STEPS_AT_ONCE.get(device.type, 1)
            # Always the same neighbors, so that no bit depends on the step a run was resumed at.
            first = step - step % at_once
            self._steps = range(first, first + at_once)
            directions = range(num_directions)
            ids, tries = self._sampler.draw_all(self._seed, self._steps, directions, device)
            tries = tries[..., None]
            self._draws = _Drawn(ids, tries, self._sampler.log_expected(ids, tries))
        index = step - self._steps[0]
        return _Drawn(*(tensor[index] for tensor in self._draws))

    def _gather(self) -> _Touched:
        """Copy the touched rows; their number has arrived while the network was running."""
        numbers = torch.arange(
            1, self._num_touched() + 1, dtype=torch.int32, device=self._ranks.device
        )
        rows = torch.searchsorted(self._ranks[1:], numbers)
        weight, bias = self._softmax.weight.detach()[rows], self._softmax.bias.detach()[rows]
        candidates = self._ranks[self._drawn.ids]
        return _Touched(rows, weight.requires_grad_(), bias.requires_grad_(), candidates)


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
        gradients = {}
        for name, parameter in self._softmax.named_parameters():
            # A cluster without any target of this process has no gradient yet.
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradients[name] = Gradient(self._processes.mean(grad))
        return gradients


def make_softmax(recipe: SoftmaxRecipe, num_words: int, dim: int) -> FullSoftmax | AdaptiveSoftmax:
    """Return the output layer of a recipe, without weights."""
    if recipe.loss == "adaptive":
        return AdaptiveSoftmax(num_words, dim, recipe.cutoffs)
    return FullSoftmax(num_words, dim)


def make_objective(
    recipe: SoftmaxRecipe, softmax: FullSoftmax | AdaptiveSoftmax, seed: int, processes: Processes
) -> Objective:
    """Return the loss of a recipe."""
    if isinstance(softmax, AdaptiveSoftmax) != (recipe.loss == "adaptive"):
        kind = "adaptive" if isinstance(softmax, AdaptiveSoftmax) else "full"
        raise ElmoxError(f"softmax.loss is {recipe.loss!r}, but the model's softmax is {kind}")
    if recipe.loss == "sampled":
        assert isinstance(softmax, FullSoftmax)
        samples = min(recipe.samples, softmax.num_words)
        return SampledObjective(softmax, samples, seed, processes)
    return DenseObjective(softmax, processes)


def _read_later(number: Tensor) -> Callable[[], int]:
    """Start copying a number to the host; the returned function waits for it.

    Waiting at once would leave the GPU idle until the host has prepared more work. Later, when the
    GPU has more work queued than the copy takes, waiting costs nothing.
    """
    if not number.is_cuda:
        return lambda: int(number)
    host = torch.empty_like(number, device="cpu", pin_memory=True)
    host.copy_(number, non_blocking=True)
    arrived = torch.cuda.current_stream(number.device).record_event()

    def wait() -> int:
        arrived.synchronize()
        return int(host)

    return wait
