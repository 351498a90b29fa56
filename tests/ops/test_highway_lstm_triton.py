"""The highway LSTM's kernels against plain torch: on a GPU, else in Triton's interpreter."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton_interpreter import count_with_arrays

from elmox.ops.tf32 import tf32_products
from elmox.tasks import highway_lstm
from elmox.tasks.highway_lstm import HighwayLstm, Packing, Steps, TorchSteps

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
with pytest.MonkeyPatch.context() as patch:
    if DEVICE == "cpu":
        patch.setenv("TRITON_INTERPRET", "1")  # heeded when Triton and our kernels are imported
    pytest.importorskip("triton")
    from elmox.ops.highway_lstm_triton import GO_BACK, READ, TritonSteps

# Largest difference from float64, relative to the largest value.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 5e-2}
MANY_ROWS = [5] * 3 + [4] * READ.rows + [2] * GO_BACK.rows  # blocks that begin and end in between
MANY_CELLS = max(READ.cells, READ.terms, GO_BACK.cells, GO_BACK.terms) + 5


@pytest.fixture(scope="module", autouse=True)
def interpreted() -> Iterator[None]:
    """Where there is no GPU."""
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE == "cpu":
            patch.setenv("TRITON_INTERPRET", "1")
            count_with_arrays(patch)
        yield


class Problem(NamedTuple):
    """What a layer is given, on the CPU."""

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
            own.to(device, dtype, copy=True)
            for own in (self.products, self.recurrent, self.d_outputs)
        )
        return Problem(products, recurrent, mask, d_outputs)


def gone_through(kind: type[Steps], problem: Problem, packing: Packing, backward: bool) -> Tensor:
    """There and back: activated gates, cells, outputs and gradients, side by side."""
    products, recurrent, mask, d_outputs = problem
    cells, outputs = (torch.full_like(d_outputs, float("nan")) for _ in range(2))
    d_products = torch.full_like(products, float("nan"))
    rows = packing.on(products.device)
    steps = kind(recurrent, mask, rows.sizes, rows.starts, backward)
    steps.read(products, cells, outputs)
    steps.go_back(products, cells, d_outputs, d_products)
    return torch.cat([products, cells, outputs, d_products], dim=1)


def packing_of(lengths: list[int]) -> Packing:
    return Packing.of(np.array(sorted(lengths)[::-1]))


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    num_cells=st.integers(1, 9),
    backward=st.booleans(),
    masked=st.booleans(),
    dtype=st.sampled_from(list(TOLERANCE)),
)
@example([1], 1, False, True, torch.float32)
@example([7], 3, True, False, torch.float32)
@example(MANY_ROWS, MANY_CELLS, False, True, torch.float32)
@example(MANY_ROWS, MANY_CELLS, True, True, torch.float32)
@example(MANY_ROWS, MANY_CELLS, True, False, torch.bfloat16)
def test_the_way_there_and_back(
    lengths: list[int], num_cells: int, backward: bool, masked: bool, dtype: torch.dtype
) -> None:
    packing = packing_of(lengths)
    problem = Problem.random(lengths, num_cells, masked).to(DEVICE, dtype)
    expected = gone_through(TorchSteps, problem.to("cpu", torch.float64), packing, backward)
    found = gone_through(TritonSteps, problem, packing, backward)
    assert found.dtype == dtype
    scale = expected.abs().amax(0).clamp(min=1)
    assert ((found.cpu().double() - expected).abs().amax(0) / scale).max() < TOLERANCE[dtype]


def test_in_tf32_where_torch_is() -> None:
    packing = packing_of(MANY_ROWS)
    problem = Problem.random(MANY_ROWS, MANY_CELLS, masked=True)
    expected = gone_through(TorchSteps, problem.to("cpu", torch.float64), packing, backward=True)
    with tf32_products(torch.device("cuda")):
        found = gone_through(TritonSteps, problem.to(DEVICE, torch.float32), packing, backward=True)
    scale = expected.abs().amax(0).clamp(min=1)
    difference = ((found.cpu().double() - expected).abs().amax(0) / scale).max()
    assert difference < 5e-3
    if DEVICE == "cuda":  # the interpreter knows no TF32
        assert difference > TOLERANCE[torch.float32]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_layer_learns_the_same(
    backward: bool, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every gradient, however that of the outputs is laid out."""
    torch.manual_seed(7)
    layer = HighwayLstm(6, 11, dropout, backward).to(DEVICE)
    packing = packing_of([6, 6, 4, 1])
    rows = packing.on(torch.device(DEVICE))
    inputs = torch.randn(17, 6, device=DEVICE, requires_grad=True)
    found = {}
    for name, reason in (("torch", "told to"), ("triton", None)):
        monkeypatch.setattr(highway_lstm, "why_not_triton", lambda like, reason=reason: reason)
        torch.manual_seed(8)  # the same mask
        outputs = layer(inputs, rows)
        loss = outputs.sum() + outputs.sum(0)[3]
        found[name] = [outputs, *torch.autograd.grad(loss, [inputs, *layer.parameters()])]
    for one, other in zip(found["torch"], found["triton"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_products_of_any_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highway_lstm, "why_not_triton", lambda like: None)
    layer, packing = HighwayLstm(6, 5, 0.0, backward=True).to(DEVICE), packing_of([3, 2])
    rows = packing.on(torch.device(DEVICE))
    products = torch.randn(5, 30, device=DEVICE)
    strange = products.T.contiguous().T
    assert not strange.is_contiguous()
    found = (layer.read(own, rows) for own in (products, strange))
    assert torch.equal(*found)


def test_numbers_repeat_bit_by_bit() -> None:
    packing = packing_of(MANY_ROWS)
    problem = Problem.random(MANY_ROWS, MANY_CELLS, masked=True)
    one, other = (
        gone_through(TritonSteps, problem.to(DEVICE, torch.float32), packing, backward=True)
        for _ in range(2)
    )
    assert torch.equal(one, other)
