"""A selection of layers that applies itself to tensors; see `layer_coefficients`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.layer_coefficients import Layers, layer_coefficients
from elmox.model.layer_mix import Mix

__all__ = ["LayerChoice", "Layers", "choose_layers"]


@dataclass(frozen=True)
class LayerChoice:
    """K selected combinations of the J layers."""

    num_chosen: int  # K
    coefficients: Tensor | None  # (K, J); None for all layers unchanged
    single: bool  # whether the axis of K = 1 is dropped from results

    def to(self, device: torch.device) -> "LayerChoice":
        """Return the same selection with its coefficients on another device."""
        if self.coefficients is None:
            return self
        return replace(self, coefficients=self.coefficients.to(device))

    def apply(self, layers: Tensor) -> Tensor:
        """(J, ...) -> (K, ...). Sums are taken in float32 or better."""
        if self.coefficients is None:
            return layers
        dtype = torch.promote_types(layers.dtype, torch.float32)
        coefficients = self.coefficients.to(layers.device, dtype)
        mixed: Tensor = torch.tensordot(coefficients, layers.to(dtype), dims=1)
        return mixed.to(layers.dtype)


def choose_layers(layers: Layers, num_layers: int, mixes: Mapping[str, Mix]) -> LayerChoice:
    """Check a caller's choice and turn it into coefficients.

    Args:
        layers: see `layer_coefficients`.
        num_layers: J, the token layer included.
        mixes: the mixes stored with the model.
    """
    stored = {name: partial(_coefficients, mix) for name, mix in mixes.items()}
    coefficients, single = layer_coefficients(layers, num_layers, stored)
    if coefficients is None:
        return LayerChoice(num_layers, None, single)
    return LayerChoice(len(coefficients), torch.from_numpy(coefficients), single)


def _coefficients(mix: Mix) -> NDArray[np.float32]:
    coefficients: NDArray[np.float32] = mix.coefficients().numpy()
    return coefficients
