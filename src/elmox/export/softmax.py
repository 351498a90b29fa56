"""The language model's output layer as an ONNX graph: LSTM outputs to log-probabilities of words.

Shapes: N positions, P projection, V words.
"""

from typing import cast

import onnx
from onnx import TensorProto
from torch import Tensor, nn

from elmox.export.graph import Graph, Weights, float32
from elmox.export.token_encoder import array
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax

HIDDEN, LOG_PROBS = "hidden", "log_probs"


def softmax_model(
    softmax: FullSoftmax | AdaptiveSoftmax, dim: int, weights: Weights | None
) -> onnx.ModelProto:
    """Return the graph hidden (N, P) -> log_probs (N, V)."""
    graph = Graph(weights)
    if isinstance(softmax, FullSoftmax):
        log_probs = _log_softmax(graph, HIDDEN, softmax.weight, softmax.bias)
    else:
        log_probs = _adaptive(graph, softmax)
    graph.alias(log_probs, LOG_PROBS)
    return graph.model(
        "softmax",
        [float32(HIDDEN, ["N", dim])],
        [float32(LOG_PROBS, ["N", softmax.num_words])],
        "Output of one direction's top LSTM layer to log-probabilities of the vocabulary.",
    )


def _adaptive(graph: Graph, softmax: AdaptiveSoftmax) -> str:
    """Frequent words and clusters first; a rare word's probability is its cluster's times its own.

    The head is split into the frequent words and one column per cluster.
    """
    layer = softmax.layer
    head = _log_softmax(graph, HIDDEN, layer.head.weight, layer.head.bias)
    sizes = graph.ints(layer.shortlist_size, *[1] * layer.n_clusters)
    parts = graph.ops("Split", head, sizes, num_outputs=1 + layer.n_clusters, axis=1)
    columns = [parts[0]]
    for cluster, tail in zip(parts[1:], layer.tail, strict=True):
        narrow, words = cast(list[nn.Linear], list(cast(nn.Sequential, tail)))
        hidden = graph.op("MatMul", HIDDEN, graph.weight(array(narrow.weight).T, output_axis=1))
        columns.append(graph.op("Add", cluster, _log_softmax(graph, hidden, words.weight, None)))
    return graph.op("Concat", *columns, axis=1)


def _log_softmax(graph: Graph, hidden: str, weight: Tensor, bias: Tensor | None) -> str:
    """Append a product and its logarithm of the softmax.

    The sum runs in float64. In float32, as in `LogSoftmax`, a likely word swallows the small terms
    of a large vocabulary.
    """
    # The rows of a vocabulary are stored as they are: a transposed copy would take as long to load.
    operands = [hidden, graph.weight(array(weight), output_axis=0)]
    if bias is not None:
        operands.append(graph.vector(array(bias)))
    logits = graph.op("Gemm", *operands, transB=1)
    shifted = graph.op("Sub", logits, graph.op("ReduceMax", logits, axes=[1], keepdims=1))
    terms = graph.op("Cast", graph.op("Exp", shifted), to=TensorProto.DOUBLE)
    total = graph.op("Log", graph.op("ReduceSum", terms, graph.ints(1), keepdims=1))
    return graph.op("Sub", shifted, graph.op("Cast", total, to=TensorProto.FLOAT))
