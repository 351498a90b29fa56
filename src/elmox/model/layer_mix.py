"""The task's mix of all layers: ELMo_k = gamma * sum_j s_j h_kj (Peters et al. 2018, equation 1).

s = softmax(w). A task may insert ELMo at several places; each has its own w and gamma, and all of
them share one biLM pass. K mixes are K rows of one weight tensor, so that the module works under
DistributedDataParallel (a list of scalars does not) and mixing is one product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import LARGEST_FLOAT32
from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least

MixLayers: TypeAlias = Literal["mix", "top"] | int
Normalization: TypeAlias = Literal["batch", "token"]

_FAR_BELOW = -1e4  # a weight whose softmax is 0


@dataclass(frozen=True)
class Mix:
    """One learned mix, as a value that is stored with a model.

    Attributes:
        weights: w, one number per layer, before the softmax.
        gamma: the factor in front.
    """

    weights: tuple[float, ...]
    gamma: float = 1.0

    def __post_init__(self) -> None:
        _require_finite("mix weights", self.weights)
        _require_finite("gamma", [self.gamma])

    def coefficients(self) -> Tensor:
        """Return gamma * softmax(w), one number per layer."""
        return self.gamma * torch.softmax(torch.tensor(self.weights), dim=0)


class LayerMix(nn.Module):
    """K mixes of J layers.

    Args:
        num_layers: J, the token layer included.
        num_mixes: K.
        layers: "mix" for a learned mix of all layers; "top" for gamma times the top layer; an index
            for gamma times that layer (0 is the token layer). Only "mix" has weights.
        weights: w to start from, the same for every mix; zeros (the plain average) by default.
        trainable: False fixes the weights at `weights`; gamma is always learned.
        normalize: bring each layer to mean 0 and variance 1 before mixing.

            - "batch": one mean and variance per layer, over all tokens and dimensions of the batch,
              as AllenNLP's `do_layer_norm`. A token's vector then depends on the other sentences
              of its batch.
            - "token": one mean and variance per layer and token, over its dimensions, as
              `torch.nn.LayerNorm` without learned parameters. A token's vector does not depend on
              its batch.
        dropout: probability with which a number of the mixed vectors is dropped in training.

    Attributes:
        gamma: (K,), learned.
        weights: (K, J), learned unless `trainable` is False; None unless `layers` is "mix".
    """

    def __init__(
        self,
        num_layers: int,
        num_mixes: int = 1,
        *,
        layers: MixLayers = "mix",
        weights: Sequence[float] | None = None,
        trainable: bool = True,
        normalize: Normalization | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_at_least(1, "num_mixes", num_mixes)
        if not 0 <= dropout <= 1:
            raise ArgumentError("{} is {}, expected 0 to 1", Argument("dropout"), dropout)
        if normalize is not None and normalize not in get_args(Normalization):
            raise ArgumentError(
                "{}: expected None, 'batch' or 'token'", Argument("normalize", normalize)
            )
        _require_layers(layers, num_layers)
        _require_weights(weights, layers, num_layers)
        self.num_layers = num_layers
        self.layers = layers
        self.normalize = normalize
        self.dropout = dropout
        self.gamma = nn.Parameter(torch.ones(num_mixes))
        start = torch.zeros(num_layers) if weights is None else torch.tensor(list(weights))
        self.weights = (
            nn.Parameter(start.float().repeat(num_mixes, 1), requires_grad=trainable)
            if layers == "mix"
            else None
        )

    @property
    def num_mixes(self) -> int:
        """K."""
        return len(self.gamma)

    def coefficients(self) -> Tensor:
        """Return gamma_k * s_kj, (K, J)."""
        if self.weights is None:
            selected = torch.zeros(self.num_layers, device=self.gamma.device)
            selected[self._index()] = 1.0
            return self.gamma[:, None] * selected
        return self.gamma[:, None] * torch.softmax(self.weights, dim=1)

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix layers.

        Args:
            layers: (J, ..., D).
            mask: (...), true at tokens, for normalization over the batch; None if every position
                is a token.

        Returns:
            (K, ..., D).
        """
        if layers.shape[0] != self.num_layers:
            raise ElmoxError(f"{layers.shape[0]} layers given, this mix has {self.num_layers}")
        coefficients = self.coefficients()
        # Nothing is computed for the other layers. The top layer is selected by zeros instead: with
        # K > 1 a product of one layer sums the gradient of gamma in another order.
        if isinstance(self.layers, int):
            chosen = slice(self.layers, self.layers + 1)
            layers, coefficients = layers[chosen], coefficients[:, chosen]
        if self.normalize == "batch":
            layers = _normalized_over_batch(layers, mask)
        elif self.normalize == "token":
            layers = F.layer_norm(layers, layers.shape[-1:])
        mixed = torch.tensordot(coefficients.to(layers.dtype), layers, dims=1)
        return F.dropout(mixed, self.dropout, self.training)

    def penalty(self, lambda_: float) -> Tensor:
        """Return lambda * ||w||^2, which pulls the mix towards the plain average of the layers."""
        if self.weights is None:
            return self.gamma.new_zeros(())
        return lambda_ * self.weights.square().sum()

    def mixes(self) -> list[Mix]:
        """Return the learned mixes as values. A single layer is written as weights far apart."""
        if self.weights is None:
            row = [_FAR_BELOW] * self.num_layers
            row[self._index()] = 0.0
            rows = [row] * self.num_mixes
        else:
            rows = self.weights.tolist()
        return [Mix(tuple(w), g) for w, g in zip(rows, self.gamma.tolist(), strict=True)]

    def extra_repr(self) -> str:
        """Return the options that differ from the defaults, and the learned coefficients."""
        options = [f"num_layers={self.num_layers}", f"num_mixes={self.num_mixes}"]
        if self.layers != "mix":
            options.append(f"layers={self.layers!r}")
        if self.weights is not None and not self.weights.requires_grad:
            options.append("trainable=False")
        if self.normalize is not None:
            options.append(f"normalize={self.normalize!r}")
        if self.dropout:
            options.append(f"dropout={self.dropout}")
        rows = self.coefficients().tolist()
        shown = ", ".join("[" + ", ".join(f"{number:.3g}" for number in row) + "]" for row in rows)
        return f"{', '.join(options)}, coefficients={shown}"

    def _index(self) -> int:
        """The single layer that is selected."""
        return self.layers if isinstance(self.layers, int) else self.num_layers - 1


def _require_layers(layers: MixLayers, num_layers: int) -> None:
    is_index = type(layers) is int and 0 <= layers < num_layers
    if not is_index and layers not in ("mix", "top"):
        raise ArgumentError(
            "{}: expected 'mix', 'top', or an index from 0 to {}",
            Argument("layers", layers),
            num_layers - 1,
        )


def _require_weights(weights: Sequence[float] | None, layers: MixLayers, num_layers: int) -> None:
    if weights is None:
        return
    if layers != "mix":
        raise ArgumentError(
            "{} has no mix weights: leave {} out", Argument("layers", layers), Argument("weights")
        )
    if len(weights) != num_layers:
        raise ElmoxError(
            f"{len(weights)} mix weights for {num_layers} layers: expected one per layer"
        )
    _require_finite("mix weights", weights)


def _require_finite(name: str, numbers: Sequence[float]) -> None:
    for number in numbers:
        if not abs(number) <= LARGEST_FLOAT32:  # neither is NaN
            raise ElmoxError(f"{name}: {number} is not a finite number of float32")


def _normalized_over_batch(layers: Tensor, mask: Tensor | None) -> Tensor:
    """Subtract each layer's mean, divide by its deviation; both are taken over tokens only."""
    if mask is None:
        mask = torch.ones(layers.shape[1:-1], dtype=torch.bool, device=layers.device)
    exact = layers.to(torch.promote_types(layers.dtype, torch.float32))
    inside = exact[:, mask]  # (J, tokens, D)
    shape = (-1, *[1] * (layers.dim() - 1))
    mean = inside.mean(dim=(1, 2)).view(shape)
    variance = inside.var(dim=(1, 2), correction=0).view(shape)
    return ((exact - mean) / torch.sqrt(variance + 1e-13)).to(layers.dtype)
