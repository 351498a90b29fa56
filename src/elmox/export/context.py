"""The LSTM stacks as ONNX nodes: word vectors to all layers.

One `Scan` per layer runs both directions; `ReverseSequence` turns the backward direction around
within each sentence. The loop has no mask: padding follows a sentence's tokens, and no direction
looks ahead, so it reaches none of them. The first layer multiplies each distinct word once, not
each token.

Shapes: U distinct words, B sentences, T tokens, L LSTM layers, D directions, P projection, C cells.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import onnx
from onnx import TensorProto

from elmox.config import LstmConfig
from elmox.export.graph import Graph, float32, int32
from elmox.export.token_encoder import array
from elmox.kernels.lstm.plain import LstmWeights
from elmox.model.bilm import BiLm
from elmox.model.lstm import LstmLayer

INDEX, LENGTHS, LAYERS = "index", "lengths", "layers"
HIDDEN, CELL = "hidden", "cell"
FINAL_HIDDEN, FINAL_CELL = "final_hidden", "final_cell"


@dataclass(frozen=True)
class _Outputs:
    """Outputs of one layer, a value per direction, in the order in which the direction reads."""

    hidden: list[str]  # (T, B, P)
    cell: list[str]  # (T, B, C), only if the state is exported


def context_inputs(config: LstmConfig, state: bool) -> list[onnx.ValueInfoProto]:
    """Declare the inputs next to the word vectors."""
    inputs = [int32(INDEX, ["B", "T"]), int32(LENGTHS, ["B"])]
    return inputs + (_state_values(config, HIDDEN, CELL) if state else [])


def context_outputs(config: LstmConfig, state: bool) -> list[onnx.ValueInfoProto]:
    """Declare the outputs."""
    dim = config.num_directions * config.projection_dim
    outputs = [float32(LAYERS, [config.num_layers + 1, "B", "T", dim])]
    return outputs + (_state_values(config, FINAL_HIDDEN, FINAL_CELL) if state else [])


def add_context(graph: Graph, bilm: BiLm, vectors: str, state: bool) -> None:
    """Append the LSTM stacks and name their outputs.

    Args:
        graph: a graph with the inputs of `context_inputs`.
        bilm: the weights.
        vectors: (U, P) vectors of the distinct words.
        state: whether to read a start state and to return the final one.
    """
    config = bilm.config.lstm
    lengths = graph.op("Cast", LENGTHS, to=TensorProto.INT64)
    index = graph.op("Transpose", graph.op("Cast", INDEX, to=TensorProto.INT64), perm=[1, 0])

    def reverse(value: str) -> str:
        return graph.op("ReverseSequence", value, lengths, time_axis=0, batch_axis=1)

    indices = [index, reverse(index)][: config.num_directions]
    inputs = [graph.op("Gather", vectors, i, axis=0) for i in indices]  # (T, B, P) each
    layers, outputs = [inputs], []
    for number, layer in enumerate(cast(list[LstmLayer], list(bilm.lstm))):
        weights = layer.weights()
        if number == 0:
            products = _word_products(graph, weights, vectors, indices)
        else:
            products = _token_products(graph, weights, inputs)
        read = _scan(graph, weights, products, number, state)
        outputs.append(read)
        inputs = read.hidden
        if config.skip_connections and number > 0:
            inputs = [graph.op("Add", *pair) for pair in zip(inputs, layers[-1], strict=True)]
        layers.append(inputs)
    directions = [
        [forward, *map(reverse, backward)] if number else [forward, *([forward] * len(backward))]
        for number, (forward, *backward) in enumerate(layers)
    ]
    graph.alias(_padded_with_zeros(graph, directions, lengths), LAYERS)
    if state:
        _name_final_state(graph, config, outputs, lengths)


def _word_products(
    graph: Graph, weights: LstmWeights, vectors: str, indices: list[str]
) -> list[str]:
    """Return the inputs' part of the first layer's gates, (T, B, 4C) per direction."""
    return [
        graph.op("Gather", _product(graph, weights, direction, vectors), index, axis=0)
        for direction, index in enumerate(indices)
    ]


def _token_products(graph: Graph, weights: LstmWeights, inputs: list[str]) -> list[str]:
    """Return the same for a layer above the first."""
    num_gates = weights.bias.shape[1]
    rows = graph.op("Shape", inputs[0], start=0, end=2)  # T, B
    shape = graph.op("Concat", rows, graph.ints(num_gates), axis=0)
    products = []
    for direction, value in enumerate(inputs):
        # `Gemm` adds the bias on the way, but takes nothing but matrices.
        flat = graph.op("Reshape", value, graph.ints(-1, weights.input_weight.shape[2]))
        product = _product(graph, weights, direction, flat)
        products.append(graph.op("Reshape", product, shape))
    return products


def _product(graph: Graph, weights: LstmWeights, direction: int, x: str) -> str:
    matrix = graph.weight(array(weights.input_weight[direction]).T, output_axis=1)
    return graph.op("Gemm", x, matrix, graph.vector(array(weights.bias[direction])))


def _scan(
    graph: Graph, weights: LstmWeights, products: list[str], number: int, state: bool
) -> _Outputs:
    """Append the recurrence of one layer, all directions in one loop."""
    num_cells, dim = weights.bias.shape[1] // 4, weights.recurrent_weight.shape[2]
    directions = range(len(products))
    body = Graph(prefix=f"layer{number}_")
    hidden, cell, gates = (
        [body.name(kind) for _ in directions] for kind in ("hidden", "cell", "gates")
    )
    new_hidden, new_cell = [], []
    for direction in directions:
        step = _step(graph, body, weights, direction, gates, hidden, cell)
        new_hidden.append(step[0])
        new_cell.append(step[1])
    emitted = new_hidden + (new_cell if state else [])
    copies = [body.op("Identity", value) for value in emitted]  # a name is one output only
    widths = [dim] * len(hidden) + ([num_cells] * len(cell) if state else [])
    loop = body.body(
        [float32(name, ["B", dim]) for name in hidden]
        + [float32(name, ["B", num_cells]) for name in cell]
        + [float32(name, ["B", 4 * num_cells]) for name in gates],
        [float32(name, ["B", dim]) for name in new_hidden]
        + [float32(name, ["B", num_cells]) for name in new_cell]
        + [float32(name, ["B", width]) for name, width in zip(copies, widths, strict=True)],
    )
    num_states = 2 * len(products)
    outputs = graph.ops(
        "Scan",
        *_start(graph, products, number, HIDDEN, dim, state),
        *_start(graph, products, number, CELL, num_cells, state),
        *products,
        num_outputs=num_states + len(copies),
        num_scan_inputs=len(products),
        body=loop,
    )[num_states:]
    return _Outputs(outputs[: len(products)], outputs[len(products) :])


def _step(
    graph: Graph,
    body: Graph,
    weights: LstmWeights,
    direction: int,
    gates: list[str],
    hidden: list[str],
    cell: list[str],
) -> tuple[str, str]:
    """Append one time step of one direction to a loop's body and return its new state.

    Weights belong to the graph around the loop, where runtimes fold and pack them.
    """
    num_cells = weights.bias.shape[1] // 4
    recurrent = graph.weight(array(weights.recurrent_weight[direction]).T, output_axis=1)
    product = body.op("Gemm", hidden[direction], recurrent, gates[direction])  # (B, 4C)
    i, f, o, g = body.ops("Split", product, graph.ints(*[num_cells] * 4), num_outputs=4, axis=1)
    kept = body.op("Mul", body.op("Sigmoid", f), cell[direction])
    added = body.op("Mul", body.op("Sigmoid", i), body.op("Tanh", g))
    new_cell = _clip(graph, body, body.op("Add", kept, added), weights.cell_clip)
    new_hidden = body.op("Mul", body.op("Sigmoid", o), body.op("Tanh", new_cell))
    if weights.projection is not None:
        projection = graph.weight(array(weights.projection[direction]).T, output_axis=1)
        new_hidden = body.op("MatMul", new_hidden, projection)
        new_hidden = _clip(graph, body, new_hidden, weights.proj_clip)
    return new_hidden, new_cell


def _clip(graph: Graph, body: Graph, value: str, bound: float | None) -> str:
    if bound is None:
        return value
    return body.op("Clip", value, graph.scalar(-bound), graph.scalar(bound))


def _start(
    graph: Graph, products: list[str], number: int, name: str, width: int, state: bool
) -> list[str]:
    """Return the start state of one layer, (B, width) per direction: zeros, or from an input."""
    if state:
        layer = graph.op("Gather", name, graph.scalar(number, np.int64), axis=0)  # (D, B, width)
        return [
            graph.op("Gather", layer, graph.scalar(direction, np.int64), axis=0)
            for direction in range(len(products))
        ]
    batch = graph.op("Shape", products[0], start=1, end=2)
    zeros = graph.op("ConstantOfShape", graph.op("Concat", batch, graph.ints(width), axis=0))
    return [zeros] * len(products)


def _padded_with_zeros(graph: Graph, layers: list[list[str]], lengths: str) -> str:
    """Join layers and directions, (L+1, B, T, D*P), with zeros beyond each sentence's end."""
    rows = []
    for directions in layers:
        both = graph.op("Concat", *directions, axis=2) if len(directions) > 1 else directions[0]
        rows.append(
            graph.op("Unsqueeze", graph.op("Transpose", both, perm=[1, 0, 2]), graph.ints(0))
        )
    joined = graph.op("Concat", *rows, axis=0)
    num_steps = graph.op("Squeeze", graph.op("Shape", INDEX, start=1, end=2), graph.ints(0))
    zero, one = graph.scalar(0, np.int64), graph.scalar(1, np.int64)
    steps = graph.op("Unsqueeze", graph.op("Range", zero, num_steps, one), graph.ints(0))
    alive = graph.op("Less", steps, graph.op("Unsqueeze", lengths, graph.ints(1)))  # (B, T)
    return graph.op("Where", graph.op("Unsqueeze", alive, graph.ints(2)), joined, graph.scalar(0))


def _name_final_state(
    graph: Graph, config: LstmConfig, outputs: list[_Outputs], lengths: str
) -> None:
    """Name the state after each sentence's last token, (L, D, B, P) and (L, D, B, C)."""
    last = graph.op("Sub", lengths, graph.ints(1))
    zero, one = graph.scalar(0, np.int64), graph.scalar(1, np.int64)
    batch = graph.op("Squeeze", graph.op("Shape", lengths), graph.ints(0))
    rows = graph.op("Range", zero, batch, one)
    where = [graph.op("Unsqueeze", value, graph.ints(1)) for value in (last, rows)]
    positions = graph.op("Concat", *where, axis=1)  # (B, 2)
    parts = (
        (FINAL_HIDDEN, [value for read in outputs for value in read.hidden], config.projection_dim),
        (FINAL_CELL, [value for read in outputs for value in read.cell], config.cell_dim),
    )
    for name, values, width in parts:
        ends = [graph.op("GatherND", value, positions) for value in values]  # (B, width) each
        stacked = graph.op(
            "Concat", *(graph.op("Unsqueeze", end, graph.ints(0)) for end in ends), axis=0
        )
        shape = graph.ints(config.num_layers, config.num_directions, -1, width)
        graph.alias(graph.op("Reshape", stacked, shape), name)


def _state_values(config: LstmConfig, hidden: str, cell: str) -> list[onnx.ValueInfoProto]:
    rows: list[int | str] = [config.num_layers, config.num_directions, "B"]
    return [
        float32(hidden, [*rows, config.projection_dim]),
        float32(cell, [*rows, config.cell_dim]),
    ]
