"""What AllenNLP and ELMoForManyLangs state dicts have in common: highways and LSTM layers.

A highway is one linear layer of 2F rows, first the transform, then the gate that *keeps* the input
(the negative of ours). LSTM gates lie in torch's order input, forget, candidate, output; the bias
is the recurrent product's, with AllenNLP's forget constant already inside.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from elmox.errors import ElmoxError

_DIRECTIONS = ("forward", "backward")


def load_plain_tensors(file: Path | IO[bytes], source: str) -> dict[str, Tensor]:
    """Read a torch state dict without ever running code from it."""
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ElmoxError(f"{source} does not exist") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        reason = str(error).split("\n")[0]
        raise ElmoxError(
            f"{source} is not a file of plain tensors (damaged, or a pickle that would run code); "
            f"it was not loaded: {reason}"
        ) from error
    is_plain = isinstance(loaded, dict) and all(isinstance(v, Tensor) for v in loaded.values())
    if not is_plain:
        raise ElmoxError(
            f"{source} holds {type(loaded).__name__}, expected a dict of plain tensors"
        )
    return {str(name): tensor.float() for name, tensor in loaded.items()}


def pick(tensors: Mapping[str, Tensor], name: str, source: str) -> Tensor:
    """One tensor, or an error that names it."""
    if name not in tensors:
        raise ElmoxError(f"{source} lacks the tensor {name}")
    return tensors[name]


def highway_tensors(
    tensors: Mapping[str, Tensor], prefix: str, num_highways: int, source: str
) -> dict[str, Tensor]:
    """`{prefix}{k}.weight/bias` under our names."""
    ours: dict[str, Tensor] = {}
    for k in range(num_highways):
        for part in ("weight", "bias"):
            both = pick(tensors, f"{prefix}{k}.{part}", source)
            transform, keep = both.chunk(2)
            ours[f"token_encoder.highways.{k}.transform.{part}"] = transform.clone()
            ours[f"token_encoder.highways.{k}.carry.{part}"] = -keep
    return ours


def lstm_tensors(
    tensors: Mapping[str, Tensor], prefix: str, num_layers: int, projects: bool, source: str
) -> dict[str, Tensor]:
    """`{prefix}{forward,backward}_layer_{l}.*` under our names, directions stacked."""
    names = {
        "input_weight": "input_linearity.weight",
        "recurrent_weight": "state_linearity.weight",
        "bias": "state_linearity.bias",
    }
    ours: dict[str, Tensor] = {}
    for layer in range(num_layers):
        cells = [f"{prefix}{direction}_layer_{layer}." for direction in _DIRECTIONS]
        for name, theirs in names.items():
            both = [_regate(pick(tensors, cell + theirs, source)) for cell in cells]
            ours[f"lstm.{layer}.{name}"] = torch.stack(both)
        if projects:
            both = [pick(tensors, cell + "state_projection.weight", source) for cell in cells]
            ours[f"lstm.{layer}.projection"] = torch.stack(both)
    return ours


def count(tensors: Mapping[str, Tensor], pattern: str) -> int:
    """How many consecutive names exist: pattern.format(0), pattern.format(1), ..."""
    number = 0
    while pattern.format(number) in tensors:
        number += 1
    return number


def _regate(tensor: Tensor) -> Tensor:
    """Rows input, forget, candidate, output -> input, forget, output, candidate."""
    i, f, g, o = tensor.chunk(4)
    return torch.cat([i, f, o, g])
