"""The LSTM layer of `plain.py` on the fused kernels, for 16 bits on a GPU.

Three launches per step for both directions. Cells are carried in float32 within a window.

Shapes: D directions, N tokens in time-major order, B rows, P projection, C cells.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from elmox.kernels.lstm.plain import LstmWeights
from elmox.kernels.lstm.triton_step import clip_outputs, forward_step, interleaved


class FusedLstm:
    """All directions of a layer together. It holds a copy of the weights in another layout."""

    def __init__(self, weights: LstmWeights) -> None:
        assert weights.projection is not None
        both = torch.cat([weights.input_weight, weights.recurrent_weight], dim=-1)
        self._weight = interleaved(both).flatten(1, 3).contiguous()
        self._bias = interleaved(weights.bias).flatten(1).float().contiguous()
        self._outward = weights.projection.transpose(1, 2)
        self._cell_clip = math.inf if weights.cell_clip is None else weights.cell_clip
        self._proj_clip = math.inf if weights.proj_clip is None else weights.proj_clip

    def __call__(
        self, inputs: Tensor, step_sizes: Sequence[int], hidden: Tensor, cell: Tensor
    ) -> Tensor:
        """See `LstmKernel`."""
        split, size = inputs.shape[2], step_sizes[0]
        outputs = inputs.new_empty(*inputs.shape[:2], hidden.shape[2])
        both = torch.cat([inputs, outputs], dim=-1)  # the right half is filled step by step
        both[:, :size, split:] = hidden[:, :size]
        cells, memory = cell.float(), torch.empty_like(cell)
        start, clip_before = 0, math.inf
        for size, next_size in zip(step_sizes, [*step_sizes[1:], 0], strict=True):
            stop = start + size
            active = cells[:, :size]
            state = (active, active, memory[:, :size], None)
            bounds = (clip_before, self._cell_clip)
            forward_step(both[:, start:stop], self._weight, self._bias, *state, *bounds)
            torch.bmm(memory[:, :size], self._outward, out=outputs[:, start:stop])
            following = both[:, stop : stop + next_size, split:]
            clip_outputs(outputs[:, start:stop], hidden[:, :size], following, self._proj_clip)
            start, clip_before = stop, self._cell_clip
        cell.copy_(cells.clamp_(-self._cell_clip, self._cell_clip))
        return outputs.clamp_(-self._proj_clip, self._proj_clip)
