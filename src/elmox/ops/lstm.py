"""One LSTM layer with projection and clipping over time-major ragged rows, for inference.

What `model/lstm.py` says plainly, without padding and almost without temporary memory: the input
product of a window of steps is one product, a step is one product and a handful of in-place passes
over all gates of both directions, and rows that have ended cost nothing.

Shapes: D directions, N tokens in time-major order, B rows, P projection, C cells.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def lstm_window(
    inputs: Tensor,
    step_sizes: Sequence[int],
    hidden: Tensor,
    cell: Tensor,
    *,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    projection: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
) -> Tensor:
    """Read a window of time steps.

    Args:
        inputs: (D, N, P_in), N = sum(step_sizes).
        step_sizes: rows alive at each step; never rising.
        hidden: (D, B, P) state before the window; replaced by the state after it.
        cell: (D, B, C) likewise.
        input_weight: (D, 4C, P_in), gates in the order input, forget, output, candidate.
        recurrent_weight: (D, 4C, P).
        bias: (D, 4C), forget bias included.
        projection: (D, P, C), or None where cells are the output.
        cell_clip: bound of the cell, or None.
        proj_clip: bound of the projection, or None.

    Returns:
        (D, N, P) outputs.
    """
    num_directions, num_tokens, _ = inputs.shape
    num_cells = cell.shape[2]
    recurrent = recurrent_weight.transpose(1, 2)
    outward = None if projection is None else projection.transpose(1, 2)
    products = torch.baddbmm(bias.unsqueeze(1), inputs, input_weight.transpose(1, 2))
    outputs = inputs.new_empty(num_directions, num_tokens, hidden.shape[2])
    # One buffer for the gates of every step: batched products are fastest into contiguous memory.
    buffer = inputs.new_empty(num_directions * step_sizes[0] * 4 * num_cells)
    previous = hidden
    start = 0
    for size in step_sizes:
        stop = start + size
        gates = buffer[: num_directions * size * 4 * num_cells].view(num_directions, size, -1)
        torch.baddbmm(products[:, start:stop], previous[:, :size], recurrent, out=gates)
        gates[..., : 3 * num_cells].sigmoid_()
        candidate = gates[..., 3 * num_cells :].tanh_()
        input_gate, forget_gate, output_gate, _ = gates.chunk(4, dim=-1)
        alive = cell[:, :size]
        alive.mul_(forget_gate).addcmul_(input_gate, candidate)
        if cell_clip is not None:
            alive.clamp_(-cell_clip, cell_clip)
        memory = torch.tanh(alive).mul_(output_gate)
        step = outputs[:, start:stop]
        if outward is None:
            step.copy_(memory)
        elif proj_clip is None:
            step.copy_(torch.bmm(memory, outward))
        else:
            torch.clamp(torch.bmm(memory, outward), -proj_clip, proj_clip, out=step)
        hidden[:, :size] = step
        previous = step
        start = stop
    return outputs
