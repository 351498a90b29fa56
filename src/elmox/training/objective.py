"""The training loss: what each step minimises, and the softmax's gradient.

| loss | scores the true word against |
|---|---|
| sampled | words drawn log-uniformly, one draw a direction and step, shared by all processes |
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
        """Start a step; targets (D, N) are all that this process will ask for."""

    def loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Sum of the negative log-likelihoods of a piece: hidden (D, n, P), targets (D, n)."""

    def gradients(self) -> dict[str, Gradient]:
        """The softmax's gradient by name, the mean over all processes; ends the step."""


class _Drawn(NamedTuple):
    """The candidates of one step; or of some steps, each with its row."""

    ids: Tensor  # (D, S)
    tries: Tensor  # (D, 1)
    log_expected: Tensor  # (D, S)


class _Touched(NamedTuple):
    """The rows of the softmax that a step touches."""

    rows: Tensor  # (U,) word ids, rising
    weight: Tensor  # (U, P) copies that collect gradients
    bias: Tensor  # (U,)
    candidates: Tensor  # (D, S) places among the rows


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
        # Shifted by one, so that the sum over what is before a word is the sum up to its place.
        touched = targets.new_zeros(self._softmax.num_words + 1, dtype=torch.uint8)
        for words in (self._drawn.ids, targets):
            touched[1:].index_fill_(0, words.flatten(), 1)
        self._processes.any(touched)
        self._ranks = touched.cumsum(0, dtype=torch.int32)  # of a touched word among them
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
        found = {}
        for name, values in (("weight", self._touched.weight), ("bias", self._touched.bias)):
            assert values.grad is not None
            found[name] = Gradient(self._processes.mean(values.grad), self._touched.rows)
        return found

    def _draw(self, step: int, num_directions: int, device: torch.device) -> _Drawn:
        """The candidates of a step; those of its neighbors are drawn with them."""
        if step not in self._steps:
            at_once = STEPS_AT_ONCE.get(device.type, 1)
            # Always the same neighbors: no last bit depends on where a run was resumed.
            first = step - step % at_once
            self._steps = range(first, first + at_once)
            directions = range(num_directions)
            ids, tries = self._sampler.draw_all(self._seed, self._steps, directions, device)
            tries = tries[..., None]
            self._draws = _Drawn(ids, tries, self._sampler.log_expected(ids, tries))
        place = step - self._steps[0]
        return _Drawn(*(tensor[place] for tensor in self._draws))

    def _gather(self) -> _Touched:
        """Copy the touched rows; their number has arrived while the network was set to work."""
        numbers = torch.arange(
            1, self._num_touched() + 1, dtype=torch.int32, device=self._ranks.device
        )
        rows = torch.searchsorted(self._ranks[1:], numbers)
        weight, bias = self._softmax.weight.detach()[rows], self._softmax.bias.detach()[rows]
        places = self._ranks[self._drawn.ids]
        return _Touched(rows, weight.requires_grad_(), bias.requires_grad_(), places)


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


def _read_later(number: Tensor) -> Callable[[], int]:
    """Send for a number; what is returned waits for it.

    Waiting for a GPU at once would leave it without work until the host has found more. Later, when
    the host has given it work that takes longer than the way of a number, nobody loses time.
    """
    if not number.is_cuda:
        return lambda: int(number)
    here = torch.empty_like(number, device="cpu", pin_memory=True)
    here.copy_(number, non_blocking=True)
    arrived = torch.cuda.current_stream(number.device).record_event()

    def wait() -> int:
        arrived.synchronize()
        return int(here)

    return wait
