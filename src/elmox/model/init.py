"""Random weights, drawn as for the training of the released models."""

import math

import torch
from torch import Tensor, nn

from elmox.config import PRESETS, ElmoConfig
from elmox.errors import Argument, ArgumentError
from elmox.model.bilm import BiLm
from elmox.model.char_cnn import CharCnn
from elmox.model.checkpoint import Checkpoint
from elmox.model.highway import Highway
from elmox.model.lstm import LstmLayer


@torch.no_grad()
def random_bilm(config: ElmoConfig, seed: int = 0) -> BiLm:
    """Return a biLM with random weights, the same for the same seed on every machine."""
    generator = torch.Generator().manual_seed(seed)
    bilm = BiLm(config)
    for module in bilm.modules():
        if isinstance(module, CharCnn):
            _init_char_cnn(module, generator)
        elif isinstance(module, Highway):
            _normal(module.carry.weight, generator)
            _normal(module.transform.weight, generator)
            module.carry.bias.fill_(-2.0)  # closed at first: the word passes unchanged
            module.transform.bias.zero_()
        elif isinstance(module, LstmLayer):
            _init_lstm(module, generator)
    encoder = bilm.token_encoder
    if encoder.word_embedding is not None:
        encoder.word_embedding.weight.uniform_(-1.0, 1.0, generator=generator)
    if encoder.projection is not None:
        _normal(encoder.projection.weight, generator)
        encoder.projection.bias.zero_()
    return bilm


def random_checkpoint(size: str, seed: int = 0) -> Checkpoint:
    """Return a model of a published size with random weights, to try things out."""
    if size not in PRESETS:
        raise ArgumentError("{}: expected {}", Argument("size", size), ", ".join(PRESETS))
    tensors = random_bilm(PRESETS[size], seed).state_dict()
    return Checkpoint(PRESETS[size], tensors, description=f"random weights of the {size} size")


def _init_char_cnn(char_cnn: CharCnn, generator: torch.Generator) -> None:
    char_cnn.embedding.weight.uniform_(-1.0, 1.0, generator=generator)
    if char_cnn.config.inventory == "bytes":
        char_cnn.embedding.weight[0] = 0.0  # the padding token, which weight files do not hold
    for convolution in char_cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d)
        assert convolution.bias is not None
        if char_cnn.config.activation == "relu":
            convolution.weight.uniform_(-0.05, 0.05, generator=generator)
        else:
            _normal(convolution.weight, generator)
        convolution.bias.zero_()


def _init_lstm(lstm: LstmLayer, generator: torch.Generator) -> None:
    # TensorFlow draws input and recurrent weights as one Glorot-uniform matrix per direction.
    gates, inputs = lstm.input_weight.shape[1:]
    bound = math.sqrt(6.0 / (gates + inputs + lstm.recurrent_weight.shape[2]))
    lstm.input_weight.uniform_(-bound, bound, generator=generator)
    lstm.recurrent_weight.uniform_(-bound, bound, generator=generator)
    lstm.bias.zero_()
    if lstm.projection is not None:
        bound = math.sqrt(6.0 / sum(lstm.projection.shape[1:]))
        lstm.projection.uniform_(-bound, bound, generator=generator)


def _normal(weight: Tensor, generator: torch.Generator) -> None:
    """N(0, 1/sqrt(fan_in)); the first axis is the output's."""
    weight.normal_(0.0, 1.0 / math.sqrt(weight[0].numel()), generator=generator)
