"""The token encoder as ONNX nodes: character ids and word ids to word vectors.

A convolution over characters is a product of unfolded windows with a matrix, which runs a seventh
faster in onnxruntime than its `Conv` with so few channels.

Shapes: U distinct words, S character slots, E character embedding, w filter width, n filters.
"""

from typing import cast

import numpy as np
import onnx
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.export.graph import Graph, int32
from elmox.model.char_cnn import CharCnn
from elmox.model.highway import Highway
from elmox.model.token_encoder import TokenEncoder

CHARACTERS = "characters"
WORDS = "words"
ACTIVATIONS = {"relu": "Relu", "tanh": "Tanh"}


def encoder_inputs(encoder: TokenEncoder) -> list[onnx.ValueInfoProto]:
    """Declare what an encoder reads: spelled words, word ids, or both."""
    inputs = []
    if encoder.char_cnn is not None:
        inputs.append(int32(CHARACTERS, ["U", "S"]))
    if encoder.word_embedding is not None:
        inputs.append(int32(WORDS, ["U"]))
    return inputs


def add_encoder(graph: Graph, encoder: TokenEncoder) -> str:
    """Append the token encoder and return its output, (U, P)."""
    parts = []
    if encoder.word_embedding is not None:
        parts.append(graph.rows(array(encoder.word_embedding.weight), WORDS))
    if encoder.char_cnn is not None:
        spelled = _char_cnn(graph, encoder.char_cnn)
        for highway in encoder.highways:
            spelled = _highway(graph, cast(Highway, highway), spelled)
        parts.append(spelled)
    encoded = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    if encoder.projection is None:
        return encoded
    return _linear(graph, encoder.projection, encoded, precise=True)


def array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a tensor as an array in float32."""
    return tensor.detach().float().cpu().numpy()


def _char_cnn(graph: Graph, cnn: CharCnn) -> str:
    embedded = graph.rows(array(cnn.embedding.weight), CHARACTERS, precise=True)  # (U, S, E)
    num_slots = graph.op("Shape", embedded, start=1, end=2)
    pooled, biases = [], []
    for convolution in cast(list[nn.Conv1d], list(cnn.convolutions)):
        weight = array(convolution.weight)  # (n, E, w)
        num_filters, dim, width = weight.shape
        slices = [
            graph.op(
                "Slice",
                embedded,
                graph.ints(shift),
                graph.op("Sub", num_slots, graph.ints(width - 1 - shift)),
                graph.ints(1),
            )
            for shift in range(width)
        ]
        windows = slices[0] if width == 1 else graph.op("Concat", *slices, axis=2)  # (U, S', w*E)
        matrix = weight.transpose(2, 1, 0).reshape(width * dim, num_filters)
        product = graph.op("MatMul", windows, graph.weight(matrix, output_axis=1, precise=True))
        pooled.append(graph.op("ReduceMax", product, axes=[1], keepdims=0))  # (U, n)
        biases.append(array(cast(Tensor, convolution.bias)))
    # A filter's bias is the same in every window, so it is added once, after the max.
    filters = graph.op("Concat", *pooled, axis=1)
    filters = graph.op("Add", filters, graph.vector(np.concatenate(biases)))
    return graph.op(ACTIVATIONS[cnn.config.activation], filters)


def _highway(graph: Graph, highway: Highway, x: str) -> str:
    gate = graph.op("Sigmoid", _linear(graph, highway.carry, x))
    transformed = graph.op("Relu", _linear(graph, highway.transform, x))
    return graph.op("Add", x, graph.op("Mul", gate, graph.op("Sub", transformed, x)))


def _linear(graph: Graph, linear: nn.Linear, x: str, precise: bool = False) -> str:
    weight = graph.weight(array(linear.weight).T, output_axis=1, precise=precise)
    return graph.op("Gemm", x, weight, graph.vector(array(linear.bias)))
