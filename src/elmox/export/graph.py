"""An ONNX graph under construction: nodes, constants and weights in the precision of the file.

Graphs are built by hand because torch's exporter unrolls the LSTMs or needs a private operator, and
ONNX's own LSTM operator has no projection and clips something else. Values are names, as in ONNX.
"""

from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from elmox.errors import Argument, ArgumentError

OPSET = 17
IR_VERSION = 8  # of opset 17; a newer one would shut out older runtimes for nothing
MAX_GRAPH_BYTES = 2**31 - 1  # protobuf's limit
INT8_LEVELS = 127
INT8_BLOCK = 32  # one scale for a whole row lets rare words drift further

Weights: TypeAlias = Literal["float16", "float32", "int8"]
Shape: TypeAlias = list[int | str]


class Graph:
    """A graph that grows node by node; every method that adds a value returns its name."""

    def __init__(self, weights: Weights | None = None, prefix: str = "") -> None:
        """Start an empty graph.

        Args:
            weights: how `weight` stores arrays. None stores each one in float16 if that is
                lossless, otherwise in float32.
            prefix: of all names. The body of a loop shares the namespace of the graph around it.
        """
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._weights = weights
        self._prefix = prefix
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._num_names = 0

    def name(self, hint: str) -> str:
        """Return a new name."""
        self._num_names += 1
        return f"{self._prefix}{hint}_{self._num_names}"

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output."""
        return self.ops(kind, *inputs, num_outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, num_outputs: int, **attributes: Any) -> list[str]:
        """Append a node with several outputs."""
        outputs = [self.name(kind.lower()) for _ in range(num_outputs)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs

    def alias(self, value: str, name: str) -> None:
        """Give a value a name of the caller's choice, for a graph output."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))

    def ints(self, *values: int) -> str:
        """Return a constant vector of int64, ONNX's type for shapes and axes."""
        return self._constant(np.array(values, np.int64))

    def scalar(self, value: float, dtype: type[np.generic] = np.float32) -> str:
        """Return a constant number."""
        return self._constant(np.array(value, dtype))

    def vector(self, values: NDArray[np.float32]) -> str:
        """Return a constant in float32, such as a bias: too small to be worth rounding."""
        return self._constant(np.ascontiguousarray(values, np.float32))

    def weight(self, array: NDArray[np.float32], output_axis: int, precise: bool = False) -> str:
        """Return a matrix, cast to float32 in the graph. Runtimes fold the cast when they load.

        Args:
            array: the matrix.
            output_axis: 0 or 1, the axis of the outputs. Along the other one 8-bit weights have a
                scale for every `INT8_BLOCK` inputs.
            precise: never use 8 bits. For small matrices on which much depends.
        """
        if self._weights == "int8" and not precise:
            return self._int8_weight(array, output_axis)
        stored = self._constant(self._float(array))
        return self.op("Cast", stored, to=TensorProto.FLOAT) if self._is_half(array) else stored

    def rows(self, table: NDArray[np.float32], index: str, precise: bool = False) -> str:
        """Return rows of an embedding table. It is cast after the lookup: tables may be large."""
        if self._weights == "int8" and not precise:
            scale = _scale(table, axis=1)
            stored = np.rint(table / scale).astype(np.int8)
            rows = self.op("Gather", self._constant(stored), index, axis=0)
            scales = self.op("Gather", self._constant(scale), index, axis=0)
            return self.op("Mul", self.op("Cast", rows, to=TensorProto.FLOAT), scales)
        rows = self.op("Gather", self._constant(self._float(table)), index, axis=0)
        return self.op("Cast", rows, to=TensorProto.FLOAT) if self._is_half(table) else rows

    def body(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.GraphProto:
        """Return the graph as the body of a `Scan`."""
        return helper.make_graph(self.nodes, "step", inputs, outputs, self.initializers)

    def model(
        self,
        name: str,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        description: str,
    ) -> onnx.ModelProto:
        """Return the finished graph, checked by ONNX's own checker."""
        graph = helper.make_graph(
            self.nodes, name, inputs, outputs, self.initializers, doc_string=description
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(
            graph, opset_imports=[opset], producer_name="elmox", ir_version=IR_VERSION
        )
        size = model.ByteSize()
        if not 0 <= size <= MAX_GRAPH_BYTES:
            raise ArgumentError(
                "{}.onnx would have {:,} bytes, but an ONNX file holds at most {:,}: set {}",
                *(name, size, MAX_GRAPH_BYTES, Argument("weights", "float16")),
            )
        onnx.checker.check_model(model, full_check=True)
        return model

    def _is_half(self, array: NDArray[np.float32]) -> bool:
        """Return whether an array is stored in float16."""
        if self._weights == "int8":
            return bool(np.abs(array).max() <= np.finfo(np.float16).max)
        return self._weights == "float16" or (self._weights is None and is_float16(array))

    def _float(self, array: NDArray[np.float32]) -> NDArray[Any]:
        dtype = np.float16 if self._is_half(array) else np.float32
        return np.ascontiguousarray(array, dtype)

    def _int8_weight(self, array: NDArray[np.float32], output_axis: int) -> str:
        """Append a matrix in 8 bits: stored integers, times their block's scale."""
        input_axis = 1 - output_axis
        num_inputs = array.shape[input_axis]
        block = INT8_BLOCK if num_inputs % INT8_BLOCK == 0 else num_inputs
        shape = list(array.shape)
        shape[input_axis : input_axis + 1] = [num_inputs // block, block]
        blocks = np.ascontiguousarray(array).reshape(shape)
        scale = _scale(blocks, axis=input_axis + 1).astype(np.float16)
        levels = np.rint(blocks / scale.astype(np.float32)).clip(-INT8_LEVELS, INT8_LEVELS)
        # Not DequantizeLinear: runtimes do not fold it, and would run it at every step.
        stored = self.op("Cast", self._constant(levels.astype(np.int8)), to=TensorProto.FLOAT)
        scales = self.op("Cast", self._constant(scale), to=TensorProto.FLOAT)
        return self.op("Reshape", self.op("Mul", stored, scales), self.ints(*array.shape))

    def _constant(self, array: NDArray[Any]) -> str:
        """Return a stored array. Equal small ones are stored once."""
        small = array.size <= 64
        key = (array.dtype.str, array.shape, array.tobytes() if small else b"")
        if small and key in self._constants:
            return self._constants[key]
        name = self.name("constant")
        self.initializers.append(numpy_helper.from_array(array, name))
        if small:
            self._constants[key] = name
        return name


def is_float16(array: NDArray[np.float32]) -> bool:
    """Return whether float16 holds every value of an array exactly."""
    with np.errstate(over="ignore"):
        return bool((array.astype(np.float16).astype(np.float32) == array).all())


def _scale(array: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Return what one of 127 levels is worth along an axis. At least what float16 can hold."""
    largest: NDArray[np.float32] = np.abs(array).max(axis=axis, keepdims=True)
    scale: NDArray[np.float32] = np.maximum(
        largest / np.float32(INT8_LEVELS), np.float32(np.finfo(np.float16).tiny)
    )
    return scale


def int32(name: str, shape: Shape) -> onnx.ValueInfoProto:
    """Declare an input of int32: JavaScript has no plain numbers for int64."""
    return helper.make_tensor_value_info(name, TensorProto.INT32, shape)


def float32(name: str, shape: Shape) -> onnx.ValueInfoProto:
    """Declare an input or output of float32."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
