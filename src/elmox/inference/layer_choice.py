"""Which layers a caller wants, as coefficients: every choice is a linear map of the layers.

| choice | vectors | coefficients |
|---|---|---|
| "all" | (L+1, T, D) | none: the layers as they are |
| "average" | (T, D) | 1/(L+1) each |
| "top" | (T, D) | the last one |
| 0, 1, ... or -1, ... | (T, D) | that one |
| [0, 2] | (2, T, D) | these, in this order |
| "mix" or "mix:NAME" | (T, D) | gamma * softmax(w) of a stored mix |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.model.layer_mix import Mix

Layers: TypeAlias = str | int | Sequence[int]


@dataclass(frozen=True)
class LayerChoice:
    """K wanted combinations of the J layers."""

    num_chosen: int  # K
    coefficients: Tensor | None  # (K, J); None for all layers unchanged
    single: bool  # whether the axis of K = 1 is dropped from results

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
        layers: see the table above.
        num_layers: J, the token layer included.
        mixes: the mixes stored with the model.
    """
    if isinstance(layers, str):
        if layers == "all":
            return LayerChoice(num_layers, None, single=False)
        if layers == "average":
            return LayerChoice(1, torch.full((1, num_layers), 1.0 / num_layers), single=True)
        if layers == "top":
            return LayerChoice(1, _one_hot([num_layers - 1], num_layers), single=True)
        if layers == "mix" or layers.startswith("mix:"):
            mix = _stored_mix(layers, mixes)
            return LayerChoice(1, mix.coefficients()[None], single=True)
        raise ElmoxError(
            f"layers={layers!r}: expected 'average', 'top', 'all', 'mix', a number or a list"
        )
    if isinstance(layers, int):
        return LayerChoice(1, _one_hot([layers], num_layers), single=True)
    if not len(layers):
        raise ElmoxError("layers=[]: name at least one layer")
    return LayerChoice(len(layers), _one_hot(layers, num_layers), single=False)


def _one_hot(numbers: Sequence[int], num_layers: int) -> Tensor:
    for number in numbers:
        if not isinstance(number, int) or not -num_layers <= number < num_layers:
            raise ElmoxError(
                f"layer {number!r} does not exist: this model has layers 0 to {num_layers - 1}"
            )
    return torch.eye(num_layers)[list(numbers)]


def _stored_mix(layers: str, mixes: Mapping[str, Mix]) -> Mix:
    name = layers.removeprefix("mix").removeprefix(":")
    if not mixes:
        raise ElmoxError(
            "layers='mix': no mix is stored with this model; set one with set_mix(weights, gamma), "
            "or use layers='average'"
        )
    if not name and len(mixes) == 1:
        return next(iter(mixes.values()))
    if name not in mixes:
        wanted = f"there is no mix {name!r}" if name else "several mixes are stored"
        raise ElmoxError(f"{wanted}: choose one as layers='mix:NAME' from {', '.join(mixes)}")
    return mixes[name]
