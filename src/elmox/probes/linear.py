"""A linear probe: multinomial logistic regression on fixed vectors.

The penalty (L2) is chosen on the development part with the first seed. The probe is then trained
once per seed, each with another order of examples. The loss is convex and the learning rate falls
to zero, so that seeds differ little.

Vectors are whitened by the statistics of the training part: mean 0, variance 1, no correlation. A
linear classifier could undo that, so it does not change what can be predicted. Without it, however,
training comes near the optimum within the epochs for some layers and not for others, such as those
with random weights, whose dimensions are nearly collinear.

Shapes: S seeds, G penalties, N examples, B batch, D the width of a vector, C labels. Seeds and
penalties are trained together, in one batched product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmox.errors import ElmoxError

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
UNSEEN = -1  # a label that the training part does not have: every prediction of it is wrong

_ROWS_AT_ONCE = 8192
# Below this share of an average dimension's variance there is only the rounding of float16.
_MIN_VARIANCE = 1e-5


@dataclass(frozen=True)
class ProbeOptions:
    """Options for training a probe.

    Attributes:
        epochs: number of passes over the training part.
        min_steps: minimum number of steps; a small training part gets more epochs.
        batch_size: examples per step.
        learning_rate: Adam's at the start; it falls linearly to 0.
        penalties: candidates for the factor of the squared weights in the loss. Among those that
            are equally good on the development part, the first is chosen.
    """

    epochs: int = 10
    min_steps: int = 500
    batch_size: int = 1024
    learning_rate: float = 2e-2
    penalties: Sequence[float] = PENALTIES

    def __post_init__(self) -> None:
        numbers = (self.epochs, self.min_steps, self.batch_size, self.learning_rate)
        if min(numbers) <= 0 or not self.penalties:
            raise ElmoxError(f"{self}: expected positive numbers and at least one penalty")


@dataclass(frozen=True)
class Examples:
    """Vectors and their labels.

    Attributes:
        vectors: (N, D) in any precision, on any device.
        labels: (N,) ids from 0 on, or `UNSEEN`.
    """

    vectors: Tensor
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.vectors.dim() != 2 or self.labels.shape != self.vectors.shape[:1]:
            raise ElmoxError(
                f"vectors {tuple(self.vectors.shape)} with labels {self.labels.shape}: expected "
                "(N, D) and (N,)"
            )


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe.

    Attributes:
        penalty: the chosen one.
        dev: (S, N) whether the prediction for each example of the development part is right.
        test: (S, N) the same for the test part.
    """

    penalty: float
    dev: NDArray[np.bool_]
    test: NDArray[np.bool_]


def fit_probe(
    train: Examples,
    dev: Examples,
    test: Examples,
    seeds: Sequence[int],
    device: torch.device,
    options: ProbeOptions | None = None,
) -> ProbeResult:
    """Choose the penalty on dev, train a probe per seed, and score test once.

    Args:
        train: training examples; none of them `UNSEEN`.
        dev: examples to choose the penalty by.
        test: examples to report.
        seeds: of the order of examples; the penalty is chosen with the first.
        device: device of the computation.
        options: how to train.
    """
    options = options or ProbeOptions()
    if not len(train.labels) or not len(seeds) or train.labels.min() < 0:
        raise ElmoxError("a probe needs at least one seed and one example, each with a label")
    raw = train.vectors.to(device)
    whitening = _whitening(raw)
    vectors, labels = whitening.apply(raw), torch.from_numpy(train.labels).to(device)

    def right(examples: Examples, weights: _Weights) -> NDArray[np.bool_]:
        return _right(whitening.apply(examples.vectors.to(device)), examples.labels, weights)

    choices = right(dev, _train(vectors, labels, seeds[:1], options.penalties, options))
    penalty = options.penalties[int(choices.mean(-1).argmax())]
    weights = _train(vectors, labels, seeds, [penalty], options)
    return ProbeResult(penalty, right(dev, weights), right(test, weights))


@dataclass(frozen=True)
class _Whitening:
    """The whitening `(vectors - mean) @ transform`, in float32."""

    mean: Tensor  # (D,)
    transform: Tensor  # (D, D)

    def apply(self, vectors: Tensor) -> Tensor:
        """Return whitened vectors (N, D); computed in chunks, so that only the result is held."""
        out = torch.empty(vectors.shape, device=vectors.device)
        for rows, into in zip(_row_chunks(vectors), _row_chunks(out), strict=True):
            torch.mm(rows.float() - self.mean, self.transform, out=into)
        return out


@dataclass(frozen=True)
class _Weights:
    """`matrix` (S, D, G*C) and `bias` (S, 1, G*C) of S seeds and G penalties."""

    matrix: Tensor
    bias: Tensor
    num_labels: int


def _row_chunks(vectors: Tensor) -> Sequence[Tensor]:
    return torch.split(vectors, _ROWS_AT_ONCE)


def _whitening(vectors: Tensor) -> _Whitening:
    """Fit the whitening to vectors (N, D).

    The one that changes vectors least (ZCA) does not depend on the order and signs of eigenvectors,
    which differ between machines.
    """
    number, dim = vectors.shape
    mean = torch.zeros(dim, dtype=torch.float64, device=vectors.device)
    for rows in _row_chunks(vectors):
        mean += rows.double().sum(0) / number
    covariance = torch.zeros(dim, dim, dtype=torch.float64, device=vectors.device)
    for rows in _row_chunks(vectors):
        centered = rows.float() - mean.float()
        covariance += (centered.T @ centered).double() / number
    covariance = covariance.cpu()
    variance = covariance.diagonal()
    scale = torch.where(variance > 0, variance, 1.0).rsqrt()  # a constant dimension stays as it is
    values, axes = torch.linalg.eigh(scale[:, None] * covariance * scale)
    spread = axes * values.clamp_min(_MIN_VARIANCE).rsqrt() @ axes.T
    transform = (scale[:, None] * spread).to(vectors.device, torch.float32)
    return _Whitening(mean.float(), transform)


def _train(
    vectors: Tensor,
    labels: Tensor,
    seeds: Sequence[int],
    penalties: Sequence[float],
    options: ProbeOptions,
) -> _Weights:
    """Train for all seeds and penalties at once, on whitened vectors (N, D)."""
    (number, dim), num_labels = vectors.shape, int(labels.max()) + 1
    width = len(penalties) * num_labels
    matrix = torch.zeros(len(seeds), dim, width, device=vectors.device, requires_grad=True)
    bias = torch.zeros(len(seeds), 1, width, device=vectors.device, requires_grad=True)
    factors = torch.tensor(penalties, device=vectors.device).repeat_interleave(num_labels)
    steps_per_epoch = -(-number // options.batch_size)
    epochs = max(options.epochs, -(-options.min_steps // steps_per_epoch))
    optimizer = torch.optim.Adam([matrix, bias], options.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1 - step / (epochs * steps_per_epoch)
    )
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(number, generator=g) for g in generators])
        for rows in torch.split(orders.to(vectors.device), options.batch_size, dim=1):  # (S, B)
            batch = vectors.index_select(0, rows.flatten()).view(*rows.shape, dim)
            scores = torch.baddbmm(bias, batch, matrix)  # (S, B, G*C)
            targets = labels[rows].unsqueeze(-1).expand(-1, -1, len(penalties))
            losses = functional.cross_entropy(
                scores.view(-1, num_labels), targets.flatten(), reduction="sum"
            )
            loss = losses / rows.shape[1] + (factors * matrix.square()).sum()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return _Weights(matrix.detach(), bias.detach(), num_labels)


@torch.no_grad()
def _right(vectors: Tensor, labels: NDArray[np.int64], weights: _Weights) -> NDArray[np.bool_]:
    """Return (S*G, N) whether the highest score of each example is that of its label."""
    predictions = []
    for rows in _row_chunks(vectors):
        scores = torch.baddbmm(weights.bias, rows.expand(len(weights.bias), -1, -1), weights.matrix)
        by_penalty = scores.view(*scores.shape[:2], -1, weights.num_labels).argmax(-1)  # (S, B, G)
        predictions.append(by_penalty.transpose(1, 2).flatten(0, 1).cpu())
    predicted: NDArray[np.int64] = torch.cat(predictions, 1).numpy()
    right: NDArray[np.bool_] = predicted == labels
    return right
