"""The parts that AllenNLP and ELMoForManyLangs state dicts have in common, under our names.

A highway is one linear layer of 2F rows, first the transform, then the gate that *keeps* the input
(the negative of ours). LSTM gates are in torch's order input, forget, candidate, output; the bias
is the recurrent product's and includes AllenNLP's forget constant.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from elmox.config import CharCnnConfig, LstmConfig
from elmox.errors import ElmoxError

_DIRECTIONS = ("forward", "backward")


def pick(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], source: str) -> Tensor:
    """Return one tensor of this shape, or raise an error that names it."""
    if name not in tensors:
        raise ElmoxError(f"{source} lacks the tensor {name}, expected with shape {shape}")
    if tensors[name].shape != shape:
        raise ElmoxError(
            f"{source}: {name} has shape {tuple(tensors[name].shape)}, but the rest of the model "
            f"requires {shape}"
        )
    return tensors[name]


def char_cnn_tensors(
    tensors: Mapping[str, Tensor],
    convolution: str,
    highway: str,
    config: CharCnnConfig,
    source: str,
) -> dict[str, Tensor]:
    """Return `{convolution}{i}.weight/bias`, `{highway}{k}.weight/bias` under our names."""
    ours: dict[str, Tensor] = {}
    e, f = config.embedding_dim, config.num_filters
    for i, (width, number) in enumerate(config.filters):
        weight = pick(tensors, f"{convolution}{i}.weight", (number, e, width), source)
        ours[f"token_encoder.char_cnn.convolutions.{i}.weight"] = weight
        bias = pick(tensors, f"{convolution}{i}.bias", (number,), source)
        ours[f"token_encoder.char_cnn.convolutions.{i}.bias"] = bias
    for k in range(config.num_highways):
        for part, shape in (("weight", (2 * f, f)), ("bias", (2 * f,))):
            both = pick(tensors, f"{highway}{k}.{part}", shape, source)
            transform, keep = both.chunk(2)
            ours[f"token_encoder.highways.{k}.transform.{part}"] = transform.clone()
            ours[f"token_encoder.highways.{k}.carry.{part}"] = -keep
    return ours


def lstm_tensors(
    tensors: Mapping[str, Tensor], prefix: str, config: LstmConfig, source: str
) -> dict[str, Tensor]:
    """Return `{prefix}{forward,backward}_layer_{l}.*` under our names, directions stacked."""
    c, p = config.cell_dim, config.projection_dim
    names = (
        ("input_weight", "input_linearity.weight", (4 * c, p)),
        ("recurrent_weight", "state_linearity.weight", (4 * c, p)),
        ("bias", "state_linearity.bias", (4 * c,)),
    )
    ours: dict[str, Tensor] = {}
    for layer in range(config.num_layers):
        cells = [f"{prefix}{direction}_layer_{layer}." for direction in _DIRECTIONS]
        for name, theirs, shape in names:
            both = [_regate(pick(tensors, cell + theirs, shape, source)) for cell in cells]
            ours[f"lstm.{layer}.{name}"] = torch.stack(both)
        both = [pick(tensors, cell + "state_projection.weight", (p, c), source) for cell in cells]
        ours[f"lstm.{layer}.projection"] = torch.stack(both)
    more = f"{prefix}forward_layer_{config.num_layers}.input_linearity.weight"
    if more in tensors:
        raise ElmoxError(f"{source} has {more}, but n_layers = {config.num_layers}")
    return ours


def count(tensors: Mapping[str, Tensor], pattern: str) -> int:
    """Count the consecutive names that exist: pattern.format(0), pattern.format(1), ..."""
    number = 0
    while pattern.format(number) in tensors:
        number += 1
    return number


def _regate(tensor: Tensor) -> Tensor:
    """Reorder rows: input, forget, candidate, output -> input, forget, output, candidate."""
    i, f, g, o = tensor.chunk(4)
    return torch.cat([i, f, o, g])
