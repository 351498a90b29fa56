"""Dropout's kernel against the plain one: on a GPU, else in Triton's interpreter on the CPU."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.dropout import dispatch as dropout
from elmox.kernels.dropout.dispatch import keyed_dropout
from elmox.kernels.dropout.plain import dropout_mask

with interpreted():
    import elmox.kernels.dropout.triton_kernels  # noqa: F401

# Largest relative difference from float64. (The interpreter rounds bfloat16 towards zero.)
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2**-7}


@pytest.fixture(scope="module", autouse=True)
def on_triton() -> Iterator[None]:
    """Whatever the device."""
    with interpreted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(dropout, "why_not_triton", lambda like: None)
        yield


@settings(max_examples=12, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    data=st.data(),
    key=st.sampled_from((0, 1, 2**63, 2**64 - 1)) | st.integers(0, 2**64 - 1),
    first_row=st.sampled_from((0, 2**20, 2**40)),
    p=st.floats(0.01, 0.99),
    dtype=st.sampled_from(list(TOLERANCE)),
)
def test_values_and_gradients(
    shape: list[int], data: st.DataObject, key: int, first_row: int, p: float, dtype: torch.dtype
) -> None:
    row_dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    rows = torch.arange(shape[row_dim]) * 3 + first_row
    mask = dropout_mask(torch.Size(shape), p, key, rows, row_dim).to(DEVICE)
    x, gradient = (random(shape, dtype, seed) for seed in (1, 2))
    x.requires_grad_()
    dropped = keyed_dropout(x, p, key, rows, row_dim)
    (dropped_gradient,) = torch.autograd.grad(dropped, x, gradient)
    for after, before in ((dropped.detach(), x.detach()), (dropped_gradient, gradient)):
        assert after.dtype == dtype
        expected = before.double() * mask / (1 - p)
        torch.testing.assert_close(after.double(), expected, rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.parametrize(("shape", "row_dim"), [((3, 5000), 0), ((40, 3), 1), ((2, 3, 70, 40), 2)])
def test_more_than_one_block(shape: tuple[int, ...], row_dim: int) -> None:
    rows = torch.arange(shape[row_dim]) + 7
    x = torch.ones(shape, device=DEVICE)
    dropped = keyed_dropout(x, 0.25, 2**64 - 5, rows, row_dim)
    mask = dropout_mask(torch.Size(shape), 0.25, 2**64 - 5, rows, row_dim)
    assert torch.equal(dropped.cpu() != 0, mask)


def test_any_layout() -> None:
    x = random([4, 6, 5], torch.float32, 1)
    rows = torch.arange(6)
    strange = x.transpose(0, 2).contiguous().transpose(0, 2)
    assert not strange.is_contiguous()
    assert torch.equal(keyed_dropout(strange, 0.5, 1, rows, 1), keyed_dropout(x, 0.5, 1, rows, 1))


def test_no_mask_is_kept() -> None:
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x)
        return x

    x = random([3, 4], torch.float32, 1).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        keyed_dropout(x, 0.5, 1, torch.arange(3), 0)
    assert [x.tolist() for x in kept] == [[0, 1, 2]]  # the rows' numbers


def random(shape: list[int], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype)
