"""`lstm_rows` on the fused kernels, for 16-bit training on a GPU.

Three launches per step forward and four backward. Since every training step has the same shapes,
the loops over time are recorded once as CUDA graphs and then launched as a whole. A graph runs on
fixed memory, a `_Workspace`: a forward pass leases one, its backward pass returns it.

The gradients of the weights are products over all steps, not rounded to 16 bits.

Shapes: D directions, T steps, B rows, P projection, C cells, K = P_in + P.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmox.kernels.lstm.plain import LstmWeights
from elmox.kernels.lstm.triton_step import (
    backward_step,
    clip_outputs,
    clip_outputs_backward,
    deinterleaved,
    forward_step,
    interleaved,
)


class _Shape(NamedTuple):
    """The shape of a workspace. A missing bound is infinity."""

    device: torch.device
    dtype: torch.dtype
    num_directions: int
    num_steps: int
    num_rows: int
    input_dim: int
    dim: int
    num_cells: int
    cell_clip: float
    proj_clip: float
    keep: bool  # whether to keep what the backward pass needs


class FusedRows(torch.autograd.Function):
    """The arguments are those of `dispatch.lstm_rows`."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, hidden: Tensor, cell: Tensor, *rest: Any) -> Any:
        *tensors, cell_clip, proj_clip = rest
        num_directions, num_steps, num_rows, input_dim = inputs.shape
        shape = _Shape(
            inputs.device,
            inputs.dtype,
            num_directions,
            num_steps,
            num_rows,
            input_dim,
            hidden.shape[2],
            cell.shape[2],
            math.inf if cell_clip is None else cell_clip,
            math.inf if proj_clip is None else proj_clip,
            keep=any(ctx.needs_input_grad),
        )
        lease = _Lease(shape)
        space = lease.workspace()
        space.set_weights(LstmWeights(*rest))
        space.both[..., : shape.input_dim].copy_(inputs)
        space.both[:, 0, :, shape.input_dim :].copy_(hidden)
        space.cell.copy_(cell)
        space.forward()
        ctx.lease = lease
        ctx.dtypes = [tensor.dtype for tensor in (inputs, hidden, cell, *tensors)]
        ctx.set_materialize_grads(False)
        last_cell = space.cells[:, -1].clamp(-shape.cell_clip, shape.cell_clip)
        outputs = space.outputs.clamp(-shape.proj_clip, shape.proj_clip)
        return outputs, space.hidden.clone(), last_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        space = ctx.lease.workspace()
        buffers = (space.d_outputs, space.d_hidden, space.d_cell)
        for buffer, gradient in zip(buffers, grads, strict=True):
            if gradient is None:
                buffer.zero_()
            else:
                buffer.copy_(gradient)
        space.backward()
        gradients = space.gradients(ctx.needs_input_grad)
        ctx.lease.end()
        cast = (None if g is None else g.to(d) for g, d in zip(gradients, ctx.dtypes, strict=True))
        return *cast, None, None


def _unrounded_product(left: Tensor, right: Tensor, out: Tensor) -> None:
    if left.dtype == torch.float32:
        torch.bmm(left, right, out=out)
    else:
        torch.bmm(left, right, out_dtype=torch.float32, out=out)


class _Workspace:
    """The memory of one layer for T steps, and its two loops."""

    def __init__(self, shape: _Shape) -> None:
        self.shape = shape
        rows = (shape.num_directions, shape.num_rows)
        lead = (shape.num_directions, shape.num_steps, shape.num_rows)
        num_cells, width = shape.num_cells, shape.input_dim + shape.dim

        def low(*size: int) -> Tensor:
            return torch.empty(size, device=shape.device, dtype=shape.dtype)

        def high(*size: int) -> Tensor:
            return torch.empty(size, device=shape.device, dtype=torch.float32)

        self.both = low(*lead, width)  # inputs of each step: input and hidden state
        self.weight = low(shape.num_directions, 4 * num_cells, width)
        self.bias = high(shape.num_directions, 4 * num_cells)
        self.projection = low(shape.num_directions, shape.dim, num_cells)
        self.cell = high(*rows, num_cells)  # the start state
        self.cells = high(*lead, num_cells)  # not clipped
        self.memory = low(*lead, num_cells)
        self.outputs = low(*lead, shape.dim)  # not clipped
        self.hidden = low(*rows, shape.dim)  # after the last step
        self.forward = _Recorded(self._forward, shape.device)
        if shape.keep:
            self.gates = low(*lead, 4 * num_cells)  # in the backward pass, their gradients
            self.d_outputs = torch.empty_like(self.outputs)
            self.d_memory = low(*rows, num_cells)
            self.d_hidden = torch.empty_like(self.hidden)
            self.d_cell = torch.empty_like(self.cell)
            self.d_inputs = low(*lead, shape.input_dim)
            self.d_weight = high(*self.weight.shape)
            self.d_bias = high(shape.num_directions, 1, 4 * num_cells)
            self.d_projection = high(*self.projection.shape)
            self.ones = torch.ones_like(self.outputs[..., :1])
            self.backward = _Recorded(self._backward, shape.device)

    def set_weights(self, weights: LstmWeights) -> None:
        """Copy the weights into their layout, in the precision of the products."""
        assert weights.projection is not None
        split = self.shape.input_dim
        input_weight = interleaved(weights.input_weight)  # (D, C / 32, 4, 32, P_in)
        weight = self.weight.view(*input_weight.shape[:4], -1)
        weight[..., :split].copy_(input_weight)
        weight[..., split:].copy_(interleaved(weights.recurrent_weight))
        self.bias.view(input_weight.shape[:4]).copy_(interleaved(weights.bias))
        self.projection.copy_(weights.projection)

    def _forward(self) -> None:
        """Run the forward loop. The start state is not clipped."""
        shape, split = self.shape, self.shape.input_dim
        outward = self.projection.transpose(1, 2)
        cell, clip_before = self.cell, math.inf
        for t in range(shape.num_steps):
            gates = self.gates[:, t] if shape.keep else None
            state = (cell, self.cells[:, t], self.memory[:, t], gates)
            bounds = (clip_before, shape.cell_clip)
            forward_step(self.both[:, t], self.weight, self.bias, *state, *bounds)
            torch.bmm(self.memory[:, t], outward, out=self.outputs[:, t])
            is_last = t == shape.num_steps - 1
            following = self.hidden if is_last else self.both[:, t + 1, :, split:]
            clip_outputs(self.outputs[:, t], self.hidden, following, shape.proj_clip)
            cell, clip_before = self.cells[:, t], shape.cell_clip

    def _backward(self) -> None:
        """Run the backward loop."""
        shape = self.shape
        recurrent = self.weight[..., shape.input_dim :]
        for t in reversed(range(shape.num_steps)):
            d_output, gates = self.d_outputs[:, t], self.gates[:, t]
            clip_outputs_backward(d_output, self.outputs[:, t], self.d_hidden, shape.proj_clip)
            torch.bmm(d_output, self.projection, out=self.d_memory)
            before, clip_before = self.cell, math.inf
            if t > 0:
                before, clip_before = self.cells[:, t - 1], shape.cell_clip
            cells = (before, self.cells[:, t], self.d_memory, self.d_cell)
            backward_step(gates, *cells, clip_before, shape.cell_clip)
            torch.bmm(gates, recurrent, out=self.d_hidden)
        d_gates, d_outputs, memory, both, ones, d_inputs = (
            tensor.flatten(1, 2)  # (D, T*B, ...)
            for tensor in (
                self.gates, self.d_outputs, self.memory, self.both, self.ones, self.d_inputs
            )
        )  # fmt: skip
        torch.bmm(d_gates, self.weight[..., : shape.input_dim], out=d_inputs)
        _unrounded_product(d_gates.transpose(1, 2), both, self.d_weight)
        _unrounded_product(ones.transpose(1, 2), d_gates, self.d_bias)
        _unrounded_product(d_outputs.transpose(1, 2), memory, self.d_projection)

    def gradients(self, needed: Sequence[bool]) -> list[Tensor | None]:
        """Return the gradients of inputs, hidden and cell state, and the four weights.

        They are copies: the next pass overwrites the workspace.
        """
        split = self.shape.input_dim
        copies: list[Callable[[], Tensor]] = [
            self.d_inputs.clone,
            self.d_hidden.clone,
            self.d_cell.clone,
            lambda: deinterleaved(self.d_weight[..., :split]),
            lambda: deinterleaved(self.d_weight[..., split:]),
            lambda: deinterleaved(self.d_bias.squeeze(1)),
            self.d_projection.clone,
        ]
        return [copy() if need else None for copy, need in zip(copies, needed, strict=False)]


class _Recorded:
    """Work on fixed memory.

    The first call runs it, which compiles its kernels. The second call records it as a CUDA graph,
    which further calls replay. Without a GPU (in Triton's interpreter) every call runs it.
    """

    def __init__(self, work: Callable[[], None], device: torch.device) -> None:
        self._work = work
        self._has_run, self._can_record = False, device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if not (self._has_run and self._can_record):
            self._work()
            self._has_run = True
            return
        if self._graph is None:
            graph = torch.cuda.CUDAGraph()
            # Another thread, which copies the next step's text, may allocate meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._work()
            self._graph = graph
        self._graph.replay()


class _Lease:
    """A workspace in use, until `end` or until the lease is garbage-collected."""

    def __init__(self, shape: _Shape) -> None:
        self._workspace: _Workspace | None = None
        space = next((space for space in _free if space.shape == shape), None)
        if space is None:
            _drop_others(shape)
            space = _Workspace(shape)
        else:
            _free.remove(space)
        self._workspace = space

    def workspace(self) -> _Workspace:
        if self._workspace is None:
            raise RuntimeError("backward a second time: this layer's activations are freed")
        return self._workspace

    def end(self) -> None:
        if self._workspace is not None:
            _free.append(self._workspace)
        self._workspace = None

    def __del__(self) -> None:
        self.end()


_free: list[_Workspace] = []


def _drop_others(shape: _Shape) -> None:
    """Drop free workspaces that will not be used again.

    Those of another number of rows are kept: there are two where a step is cut into uneven pieces.
    """
    alike = [space for space in _free if space.shape._replace(num_rows=shape.num_rows) == shape]
    _free[:] = alike if len({space.shape.num_rows for space in alike}) == 1 else []
