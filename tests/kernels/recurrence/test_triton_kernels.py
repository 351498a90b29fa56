"""The LSTMs' kernels against plain torch: on a GPU, else in Triton's interpreter."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.recurrence import dispatch
from elmox.kernels.recurrence.dispatch import read_rows
from elmox.kernels.recurrence.packing import PackedRows, Packing
from elmox.kernels.recurrence.plain import Steps, TorchSteps
from elmox.kernels.tf32 import tf32_products
from elmox.tasks.nn.highway_lstm import HighwayLstm

with interpreted():
    from elmox.kernels.recurrence import triton_kernels as recurrence_triton
    from elmox.kernels.recurrence.triton_kernels import (
        BLOCK,
        FLOAT16,
        FLOAT32,
        SMALL_FLOAT16,
        Tiles,
        TritonRecurrence,
    )

# Largest difference from float64, relative to the largest value.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 5e-2}
TF32_TOLERANCE = 5e-3
FEW_CELLS = [1, 3, 8]  # each is compiled anew
MANY_ROWS = [5] * 3 + [4] * FLOAT16.rows + [2] * FLOAT32.rows  # blocks begin and end in between
MANY_CELLS = BLOCK + 5


launched: list[str] = []  # the kernels, in their order


@pytest.fixture(scope="module", autouse=True)
def on_triton() -> Iterator[None]:
    """Everything but float64, whatever the device."""
    launch = TritonRecurrence._launch

    def noted(self: TritonRecurrence, kernel: Any, *given: Any) -> None:
        launched.append(kernel.fn.__name__)
        launch(self, kernel, *given)

    with interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(TritonRecurrence, "_launch", noted)
        reason = {torch.float64: "float64"}
        patch.setattr(dispatch, "why_not_triton", lambda like: reason.get(like.dtype))
        yield


@contextmanager
def two_launches() -> Iterator[None]:
    """One there, one back."""
    launched.clear()
    yield
    assert launched == ["_forward", "_backward"]


def rows_of(lengths: list[int], device: str = DEVICE) -> PackedRows:
    return Packing.of(np.array(sorted(lengths)[::-1])).on(torch.device(device))


def furthest(actual: Tensor, expected: Tensor) -> float:
    """Column by column, relative to the largest value of one, but at least to 1."""
    scale = expected.abs().amax(0).clamp(min=1)
    return float(((actual.cpu().double() - expected).abs().amax(0) / scale).max())


class Problem(NamedTuple):
    """Inputs of a layer with highways, on the CPU."""

    products: Tensor
    recurrent: Tensor
    mask: Tensor | None
    d_outputs: Tensor

    @classmethod
    def random(cls, lengths: list[int], num_cells: int, masked: bool) -> "Problem":
        generator = torch.Generator().manual_seed(len(lengths) + num_cells)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        mask = 1.25 * (normal(len(lengths), num_cells) > -0.8) if masked else None
        recurrent = normal(5 * num_cells, num_cells) / num_cells**0.5
        num_words = sum(lengths)
        return cls(normal(num_words, 6 * num_cells), recurrent, mask, normal(num_words, num_cells))

    def to(self, device: str, dtype: torch.dtype) -> "Problem":
        """A copy, since a way through time changes the products."""
        mask = None if self.mask is None else self.mask.to(device, dtype)
        products, recurrent, d_outputs = (
            values.to(device, dtype, copy=True)
            for values in (self.products, self.recurrent, self.d_outputs)
        )
        return Problem(products, recurrent, mask, d_outputs)

    def with_triton(self, lengths: list[int], backward: bool, dtype: torch.dtype) -> Tensor:
        """There and back by our kernels."""
        moved, rows = self.to(DEVICE, dtype), rows_of(lengths)
        given = moved.recurrent[None], rows.starts, rows.sizes[0]
        steps = TritonRecurrence(*given, highway=True, backward=backward, mask=moved.mask)
        return gone_through(steps, moved)

    def with_torch(self, lengths: list[int], backward: bool) -> Tensor:
        """There and back in float64."""
        precise = self.to("cpu", torch.float64)
        sizes = rows_of(lengths, "cpu").sizes
        return gone_through(TorchSteps(precise.recurrent, precise.mask, sizes, backward), precise)


def gone_through(steps: Steps, problem: Problem) -> Tensor:
    """There and back: activated gates, cells, outputs and gradients, side by side."""
    products, _, _, d_outputs = problem
    cells, outputs = (torch.full_like(d_outputs, float("nan")) for _ in range(2))
    d_products = torch.full_like(products, float("nan"))
    steps.forward(products, cells, outputs)
    steps.backward(products, cells, d_outputs, d_products)
    return torch.cat([products, cells, outputs, d_products], dim=1)


@settings(max_examples=50 if DEVICE == "cuda" else 8, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    num_cells=st.sampled_from(FEW_CELLS),
    backward=st.booleans(),
    masked=st.booleans(),
    dtype=st.sampled_from(list(TOLERANCE)),
)
@example([1], 1, False, True, torch.float32)
@example([7], 3, True, False, torch.float32)
@example(MANY_ROWS, MANY_CELLS, False, True, torch.float32)
@example(MANY_ROWS, MANY_CELLS, True, True, torch.float32)
@example(MANY_ROWS, MANY_CELLS, True, False, torch.bfloat16)
def test_highways_there_and_back(
    lengths: list[int], num_cells: int, backward: bool, masked: bool, dtype: torch.dtype
) -> None:
    problem = Problem.random(lengths, num_cells, masked).to("cpu", dtype)
    actual = problem.with_triton(lengths, backward, dtype)
    assert actual.dtype == dtype
    assert furthest(actual, problem.with_torch(lengths, backward)) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("factor", "tiles"), [(1.0, FLOAT16), (1.0, SMALL_FLOAT16), (1e-9, FLOAT16), (1e6, FLOAT16)]
)
def test_in_float16_where_torch_is_in_tf32(
    factor: float, tiles: Tiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the gradients are."""
    monkeypatch.setattr(recurrence_triton, "FLOAT16", tiles)
    problem = Problem.random(MANY_ROWS, MANY_CELLS, masked=True)
    problem = problem._replace(d_outputs=factor * problem.d_outputs)
    with tf32_products(torch.device("cuda")):
        actual = problem.with_triton(MANY_ROWS, backward=True, dtype=torch.float32)
    expected = problem.with_torch(MANY_ROWS, backward=True)
    for values in (actual, expected):
        values[:, -problem.products.shape[1] :] /= factor
    assert TOLERANCE[torch.float32] < furthest(actual, expected) < TF32_TOLERANCE


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_layer_with_highways_learns_the_same(
    backward: bool, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every gradient, however that of the outputs is laid out."""
    torch.manual_seed(7)
    layer, rows = HighwayLstm(6, 11, dropout, backward).to(DEVICE), rows_of([6, 6, 4, 1])
    inputs = torch.randn(17, 6, device=DEVICE, requires_grad=True)

    def gradients() -> list[Tensor]:
        torch.manual_seed(8)  # the same mask
        outputs = layer(inputs, rows)
        loss = outputs.sum() + outputs.sum(0)[3]
        return [outputs, *torch.autograd.grad(loss, [inputs, *layer.parameters()])]

    with two_launches():
        actual = gradients()
    monkeypatch.setattr(dispatch, "why_not_triton", lambda like: "told to")
    for one, other in zip(gradients(), actual, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_products_of_any_layout() -> None:
    layer, rows = HighwayLstm(6, 5, 0.0, backward=True).to(DEVICE), rows_of([3, 2])
    products = torch.randn(5, 30, device=DEVICE)
    strange = products.T.contiguous().T
    assert not strange.is_contiguous()
    assert torch.equal(*(layer.read(layout, rows) for layout in (products, strange)))


def learned(lstm: nn.LSTM, words: Tensor, rows: PackedRows) -> list[Tensor]:
    """Return a layer's outputs for words and all gradients of some loss, in torch's order."""
    inputs = words.clone().requires_grad_()
    outputs = read_rows(lstm, inputs, rows)
    loss = (outputs * outputs.detach().cos()).sum() + outputs.sum(0)[1]
    return [outputs.detach(), *torch.autograd.grad(loss, [inputs, *lstm.parameters()])]


def lstm_problem(lengths: list[int], width: int, num_cells: int) -> tuple[nn.LSTM, Tensor]:
    """A layer and packed words, on the CPU."""
    torch.manual_seed(len(lengths) + num_cells)
    return nn.LSTM(width, num_cells, bidirectional=True), torch.randn(sum(lengths), width)


@settings(max_examples=50 if DEVICE == "cuda" else 8, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5).filter(any),
    width=st.integers(1, 6),
    num_cells=st.sampled_from(FEW_CELLS),
)
@example([1], 1, 1)
@example([1] * 17, 2, 32)
@example([7], 2, 3)
@example(MANY_ROWS, 4, MANY_CELLS)
def test_an_lstm_is_torchs(lengths: list[int], width: int, num_cells: int) -> None:
    lstm, words = lstm_problem(lengths, width, num_cells)
    with two_launches():
        actual = learned(deepcopy(lstm).to(DEVICE), words.to(DEVICE), rows_of(lengths))
    expected = learned(lstm.double(), words.double(), rows_of(lengths, "cpu"))
    for one, other in zip(actual, expected, strict=True):
        assert furthest(one, other) < TOLERANCE[torch.float32]


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("in_tf32", [False, True])
@pytest.mark.parametrize("num_cells", [200, 300])
def test_at_full_size(num_cells: int, in_tf32: bool) -> None:
    """Wide loads and a full ring of prefetched ones, where threads might race."""
    lengths = [40] * 3 + list(range(1, 40))
    precision = tf32_products(torch.device("cuda")) if in_tf32 else nullcontext()
    problem = Problem.random(lengths, num_cells, masked=True)
    lstm, words = lstm_problem(lengths, 64, num_cells)
    expected = learned(deepcopy(lstm).double(), words.double(), rows_of(lengths, "cpu"))
    expected.append(problem.with_torch(lengths, backward=True))
    lstm, words, rows = lstm.to(DEVICE), words.to(DEVICE), rows_of(lengths)
    with precision:
        results = [
            [*learned(lstm, words, rows), problem.with_triton(lengths, True, torch.float32)]
            for _ in range(5)
        ]
    for result in results[1:]:
        assert all(map(torch.equal, result, results[0]))
    tolerance = TF32_TOLERANCE if in_tf32 else 2e-5
    for one, other in zip(results[0], expected, strict=True):
        assert furthest(one, other) < tolerance
