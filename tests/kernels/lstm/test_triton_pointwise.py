"""The point-wise LSTM kernels against plain torch: on a GPU, otherwise in Triton's interpreter."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.lstm.plain_pointwise import Pointwise, Step, TorchPointwise

with interpreted():
    from elmox.kernels.lstm.triton_pointwise import TritonPointwise


@pytest.mark.parametrize("clip", [0.3, math.inf])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 2, 1100)])  # directions, rows, cells
def test_kernels_compute_like_plain_torch(shape: tuple[int, ...], clip: float) -> None:
    """One step forward and one backward, in slices of larger tensors as training has them."""
    generator = torch.Generator().manual_seed(0)

    def draw(factor: int = 1) -> Tensor:
        size = (*shape[:2], 2, factor * shape[2])
        return torch.randn(size, generator=generator).to(DEVICE)[:, :, 1]

    step = Step(draw(4), draw(), draw(), clip_before=2 * clip, clip=clip)
    d_memory, d_cell = draw(), draw()

    def run(pointwise: Pointwise) -> list[Tensor]:
        mine = replace(step, gates=step.gates.clone(), new_cell=torch.empty_like(step.new_cell))
        memory, again = torch.empty_like(d_memory), torch.empty_like(d_memory)
        d_gates, d_before = torch.empty_like(mine.gates), d_cell.clone()
        pointwise.forward(mine, memory)
        pointwise.backward(mine, d_memory, d_before, d_gates, again)
        return [mine.gates, mine.new_cell, memory, d_gates, d_before, again]

    with interpreted():
        ours = run(TritonPointwise())
    for tensor, expected in zip(ours, run(TorchPointwise()), strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)
