"""The task's mix of all layers: ELMo_k = gamma * sum_j s_j h_kj (Peters et al. 2018, equation 1).

s = softmax(w). A task may insert ELMo at several places; each has its own w and gamma, and all of
them share one biLM pass. K mixes are K rows of one weight tensor, so that the module works under
DistributedDataParallel (a list of scalars does not) and mixing is one product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmox.config import LARGEST_FLOAT32
from elmox.errors import ElmoxError


@dataclass(frozen=True)
class Mix:
    """One learned mix, as a value that is stored with a model."""

    weights: tuple[float, ...]  # w, before the softmax
    gamma: float = 1.0

    def __post_init__(self) -> None:
        _require_finite("mix weights", self.weights)
        _require_finite("gamma", [self.gamma])

    def coefficients(self) -> Tensor:
        """gamma * softmax(w), one number per layer."""
        return self.gamma * torch.softmax(torch.tensor(self.weights), dim=0)


class ScalarMix(nn.Module):
    """K mixes of J layers.

    Args:
        num_layers: J, the token layer included.
        num_mixes: K.
        weights: w to start from, the same for every mix; zeros (the plain average) by default.
        trainable: False fixes the weights at `weights`; gamma is always learned.
        top_only: gamma times the top layer; there are then no weights.
        normalize: bring each layer to mean 0 and variance 1 before mixing, one mean and variance a
            layer over all tokens and dimensions of the batch. Outputs then depend on the batch.
        dropout: applied to the mixed vectors.
    """

    def __init__(
        self,
        num_layers: int,
        num_mixes: int = 1,
        *,
        weights: Sequence[float] | None = None,
        trainable: bool = True,
        top_only: bool = False,
        normalize: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_mixes < 1:
            raise ElmoxError(f"num_mixes is {num_mixes}, expected at least 1")
        if weights is not None and len(weights) != num_layers:
            raise ElmoxError(
                f"{len(weights)} mix weights for {num_layers} layers: give one a layer"
            )
        if weights is not None:
            _require_finite("mix weights", weights)
        if not 0 <= dropout <= 1:
            raise ElmoxError(f"dropout is {dropout}, expected a number from 0 to 1")
        if weights is not None and top_only:
            raise ElmoxError("top_only has no mix weights: leave `weights` out")
        self.num_layers = num_layers
        self.normalize = normalize
        self.gamma = nn.Parameter(torch.ones(num_mixes))
        start = torch.zeros(num_layers) if weights is None else torch.tensor(list(weights))
        self.weights = (
            None
            if top_only
            else nn.Parameter(start.float().repeat(num_mixes, 1), requires_grad=trainable)
        )
        self.dropout = nn.Dropout(dropout)

    def coefficients(self) -> Tensor:
        """gamma_k * s_kj, (K, J)."""
        if self.weights is None:
            top = torch.zeros(self.num_layers, device=self.gamma.device)
            top[-1] = 1.0
            return self.gamma[:, None] * top
        return self.gamma[:, None] * torch.softmax(self.weights, dim=1)

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix layers.

        Args:
            layers: (J, ..., D).
            mask: (...), true where there is a token; None where every position is one.

        Returns:
            (K, ..., D).
        """
        if layers.shape[0] != self.num_layers:
            raise ElmoxError(f"{layers.shape[0]} layers given, this mix has {self.num_layers}")
        if self.normalize:
            layers = _normalized(layers, mask)
        mixed = torch.tensordot(self.coefficients().to(layers.dtype), layers, dims=1)
        return self.dropout(mixed)  # type: ignore[no-any-return]

    def penalty(self, lambda_: float) -> Tensor:
        """lambda * ||w||^2, which pulls the mix towards the plain average of the layers."""
        if self.weights is None:
            return self.gamma.new_zeros(())
        return lambda_ * self.weights.square().sum()

    def mixes(self) -> list[Mix]:
        """What has been learned, as values. A top-only mix is written as weights far apart."""
        if self.weights is None:
            rows = [[-1e4] * (self.num_layers - 1) + [0.0]] * len(self.gamma)
        else:
            rows = self.weights.tolist()
        return [Mix(tuple(w), g) for w, g in zip(rows, self.gamma.tolist(), strict=True)]


def _require_finite(name: str, numbers: Sequence[float]) -> None:
    for number in numbers:
        if not abs(number) <= LARGEST_FLOAT32:  # neither is NaN
            raise ElmoxError(f"{name}: {number} is not a finite number of float32")


def _normalized(layers: Tensor, mask: Tensor | None) -> Tensor:
    """Each layer less its mean, over its deviation; both taken over tokens, not over padding."""
    if mask is None:
        mask = torch.ones(layers.shape[1:-1], dtype=torch.bool, device=layers.device)
    exact = layers.to(torch.promote_types(layers.dtype, torch.float32))
    inside = exact[:, mask]  # (J, tokens, D)
    shape = (-1, *[1] * (layers.dim() - 1))
    mean = inside.mean(dim=(1, 2)).view(shape)
    variance = inside.var(dim=(1, 2), correction=0).view(shape)
    return ((exact - mean) / torch.sqrt(variance + 1e-13)).to(layers.dtype)
