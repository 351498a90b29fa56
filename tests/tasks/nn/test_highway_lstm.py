"""The highway LSTM against its equations, forward and backward."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.kernels.recurrence.packing import Packing
from elmox.tasks.nn.highway_lstm import HighwayLstm

CPU = torch.device("cpu")
some_lengths = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def plain(layer: HighwayLstm, row: Tensor, backward: bool, mask: Tensor | None = None) -> Tensor:
    """He et al.'s equations, word by word, for one row: (T, D) -> (T, C)."""
    num_cells = layer.recurrent.shape[1]
    hidden, cell = row.new_zeros(num_cells), row.new_zeros(num_cells)
    outputs: list[Tensor] = []
    for word in reversed(row) if backward else row:
        *gates, past = (layer.weight @ word).chunk(6)
        parts = zip(gates, (layer.recurrent @ hidden + layer.bias).chunk(5), strict=True)
        i, f, o, r, candidate = (gate + recurrent for gate, recurrent in parts)
        cell = i.sigmoid() * candidate.tanh() + f.sigmoid() * cell
        hidden = r.sigmoid() * o.sigmoid() * cell.tanh() + (1 - r.sigmoid()) * past
        hidden = hidden if mask is None else hidden * mask
        outputs.append(hidden)
    return torch.stack(outputs[::-1] if backward else outputs)


def read(layer: HighwayLstm, rows: list[Tensor]) -> list[Tensor]:
    """The layer on rows, the longest first: packed, read, and taken apart again."""
    packing = Packing.of(np.array([len(row) for row in rows]))
    where = zip(packing.rows, packing.steps, strict=True)
    packed = torch.stack([rows[row][step] for row, step in where])
    outputs = layer(packed, packing.on(CPU))
    return [outputs[torch.from_numpy(packing.rows == row)] for row in range(len(rows))]


def random_rows(lengths: list[int], width: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(n, width, dtype=dtype, generator=generator) for n in sorted(lengths)[::-1]]


def random_layer(width: int, num_cells: int, backward: bool, dropout: float = 0.0) -> HighwayLstm:
    torch.manual_seed(5)
    layer = HighwayLstm(width, num_cells, dropout, backward)
    torch.nn.init.normal_(layer.bias)
    return layer


@settings(max_examples=25, deadline=None)
@given(some_lengths, st.integers(1, 7), st.integers(1, 5), st.booleans())
def test_the_equations(lengths: list[int], width: int, num_cells: int, backward: bool) -> None:
    layer = random_layer(width, num_cells, backward).double()
    rows = [row.requires_grad_() for row in random_rows(lengths, width, torch.float64)]
    expected = [plain(layer, row, backward) for row in rows]
    actual = read(layer, rows)
    leaves = [*rows, *layer.parameters()]
    gradients = []
    for outputs in (expected, actual):
        scaled = [output.sin() * (k + 1) for k, output in enumerate(outputs)]
        gradients.append(torch.autograd.grad(torch.cat(scaled).sum(), leaves))
    for one, other in zip(expected, actual, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_in_float32() -> None:
    layer = random_layer(6, 8, backward=True)
    rows = random_rows([7, 3, 3, 1], 6, torch.float32)
    for row, output in zip(rows, read(layer, rows), strict=True):
        torch.testing.assert_close(plain(layer, row, True), output, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backward", [False, True])
def test_one_mask_for_all_steps(backward: bool) -> None:
    layer = random_layer(4, 6, backward, dropout=0.5).double()
    rows = [row.requires_grad_() for row in random_rows([5, 4, 2], 4, torch.float64)]
    actual = read(layer, rows)
    masks = [2.0 * (output.detach() != 0).all(0) for output in actual]
    expected = [plain(layer, row, backward, m) for row, m in zip(rows, masks, strict=True)]
    assert len({tuple(mask.tolist()) for mask in masks}) > 1
    leaves = [*rows, *layer.parameters()]
    for one, other in zip(expected, actual, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(
        *(
            torch.autograd.grad(torch.cat(outputs).pow(2).sum(), leaves)
            for outputs in (expected, actual)
        ),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    again = read(layer.eval(), rows)
    assert all((output != 0).all() for output in again)


def test_weights_are_drawn_orthonormal() -> None:
    layer = HighwayLstm(9, 4, 0.0, backward=False)
    for weight, num in ((layer.weight, 6), (layer.recurrent, 5)):
        for matrix in weight.chunk(num):
            torch.testing.assert_close(matrix @ matrix.T, torch.eye(4), atol=1e-6, rtol=0)
    assert layer.bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 12
