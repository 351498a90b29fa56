"""Keyed dropout: the same masks however rows are dealt out, and masks that look random."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.kernels.dropout import plain as dropout
from elmox.kernels.dropout.dispatch import keyed_dropout
from elmox.kernels.dropout.plain import dropout_mask

SIGMAS = 5  # keys are fixed, so a test that passes once always does
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

keys = st.integers(0, 2**64 - 1)


def plain_hash(key: int, row: int, place: int) -> int:
    """The hash in Python's own integers."""
    seed = (row * 0x9E3779B97F4A7C15 + key) % 2**64
    seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    seed = (seed ^ seed >> 27) * 0x94D049BB133111EB % 2**64
    seed ^= seed >> 31
    place = (place ^ place >> 16) * 0x7FEB352D % 2**32
    place = (place ^ place >> 15) * 0x846CA68B % 2**32
    place ^= place >> 16
    hashed = (place * (seed % 2**32 | 1) + (seed >> 32)) % 2**32
    return (hashed ^ hashed >> 15) * 0x846CA68B % 2**32


def bits(num_rows: int, num_places: int, key: int, first_row: int = 0) -> Tensor:
    """Fair coins (rows, places)."""
    rows = torch.arange(first_row, first_row + num_rows)
    return dropout_mask(torch.Size([num_rows, num_places]), 0.5, key, rows, 0)


def correlation_in_sigmas(a: Tensor, b: Tensor) -> float:
    """Return the correlation of two tensors of fair coins, in standard deviations."""
    return float((a == b).double().sub(0.5).sum().abs() / (0.5 * math.sqrt(a.numel())))


def chi_square_in_sigmas(coins: Tensor) -> float:
    """Eight coins in a row are a byte, and all 256 bytes are equally likely."""
    counts = np.bincount(np.packbits(coins.numpy().reshape(-1)), minlength=256)
    expected = coins.numel() / 8 / 256
    return float((((counts - expected) ** 2 / expected).sum() - 255) / math.sqrt(2 * 255))


@settings(max_examples=30, deadline=None)
@given(key=keys, rows=st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_the_hash_is_the_plain_one(key: int, rows: list[int]) -> None:
    shape = torch.Size([2, 3, len(rows), 4])
    p = 0.3
    mask = dropout_mask(shape, p, key, torch.tensor(rows), 2)
    for before in range(6):
        for row, number in enumerate(rows):
            for after in range(4):
                hashed = plain_hash(key, number, 4 * before + after)
                stays = (hashed + 2**31) % 2**32 >= round(p * 2**32)  # compared as signed
                assert bool(mask.view(6, len(rows), 4)[before, row, after]) is stays


@settings(max_examples=50, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    data=st.data(),
    key=keys,
    at_once=st.sampled_from((1, 7, 100)),
)
def test_any_partition_of_rows_and_any_slices(
    shape: list[int], data: st.DataObject, key: int, at_once: int
) -> None:
    row_dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    num_rows = shape[row_dim]
    rows = torch.arange(num_rows) * 3 + 11
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    whole = keyed_dropout(x, 0.4, key, rows, row_dim)
    order = torch.tensor(data.draw(st.permutations(range(num_rows))), dtype=torch.long)
    cut = data.draw(st.integers(0, num_rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(dropout.ELEMENTS_AT_ONCE, "cpu", at_once)
        for some in (order[:cut], order[cut:]):
            part = keyed_dropout(x.index_select(row_dim, some), 0.4, key, rows[some], row_dim)
            assert torch.equal(part, whole.index_select(row_dim, some))


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF])
def test_the_rate_is_p(p: float, key: int) -> None:
    num_rows, num_places = 256, 1024
    mask = dropout_mask(torch.Size([num_rows, num_places]), p, key, torch.arange(num_rows), 0)
    dropped = (~mask).double()
    sums = [dropped.sum()[None]]
    if p > 0.01:  # sums of rarer events are not near enough to normal
        sums += [dropped.sum(0), dropped.sum(1)]
    for some in sums:
        size = dropped.numel() / len(some)
        scores = (some - size * p) / math.sqrt(size * p * (1 - p))
        assert scores.abs().max() < SIGMAS
        assert abs(scores.square().mean() - 1) < SIGMAS * math.sqrt(2 / len(some))


def test_keys_rows_and_places_are_independent() -> None:
    coins = bits(512, 1024, key=7)
    for other in (0, 6, 8, 7 + 2**32, 7 + 2**63):
        assert correlation_in_sigmas(coins, bits(512, 1024, key=other)) < SIGMAS
    for lag in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256):
        assert correlation_in_sigmas(coins[lag:], coins[:-lag]) < SIGMAS
        assert correlation_in_sigmas(coins[:, lag:], coins[:, :-lag]) < SIGMAS
        assert correlation_in_sigmas(coins[lag:, lag:], coins[:-lag, :-lag]) < SIGMAS
        assert correlation_in_sigmas(coins[lag:, :-lag], coins[:-lag, lag:]) < SIGMAS


def test_no_two_rows_and_no_two_places_are_alike() -> None:
    coins = bits(512, 512, key=3).double() * 2 - 1
    for side in (coins, coins.T):
        products = (side @ side.T / math.sqrt(512)).fill_diagonal_(0)
        assert products.abs().max() < SIGMAS + 1  # of 130,816 pairs
        pairs = products[np.triu_indices(512, 1)]
        assert abs(float(pairs.square().mean()) - 1) < SIGMAS * math.sqrt(2 / len(pairs))


@pytest.mark.parametrize("first_row", [0, 2**20, 2**40])
def test_bytes_of_coins(first_row: int) -> None:
    coins = bits(1024, 1024, key=11, first_row=first_row)
    crossed = bits(8, 2**17, key=12, first_row=first_row)
    for some in (coins, coins.T.contiguous(), crossed, crossed.T.contiguous()):
        assert abs(chi_square_in_sigmas(some)) < SIGMAS


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_values_and_gradients(dtype: torch.dtype) -> None:
    x = torch.randn(2, 5, 6, 8, dtype=dtype, requires_grad=True)
    rows = torch.arange(6)
    dropped = keyed_dropout(x, 0.2, 9, rows, 2)
    mask = dropout_mask(x.shape, 0.2, 9, rows, 2)
    assert dropped.dtype == dtype
    assert 0 < (~mask).sum() < 0.5 * mask.numel()
    tolerance = 2 * torch.finfo(dtype).eps
    expected = x.detach().double() * mask / 0.8
    torch.testing.assert_close(dropped.detach().double(), expected, rtol=tolerance, atol=0)
    gradient = torch.randn_like(dropped)
    (actual,) = torch.autograd.grad(dropped, x, gradient)
    assert actual.dtype == dtype
    expected = gradient.double() * mask / 0.8
    torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=0)


def test_gradients_are_finite_differences() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: keyed_dropout(x, 0.5, 1, torch.arange(3), 1), (x,))


def test_any_layout() -> None:
    x = torch.randn(4, 6, 5)
    rows = torch.arange(6)
    strange = x.transpose(0, 2).contiguous().transpose(0, 2)
    assert not strange.is_contiguous()
    assert torch.equal(keyed_dropout(strange, 0.5, 1, rows, 1), keyed_dropout(x, 0.5, 1, rows, 1))


def test_only_a_mask_is_kept() -> None:
    kept: list[Tensor] = []

    def keep(x: Tensor) -> Tensor:
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        keyed_dropout(torch.randn(3, 4, requires_grad=True), 0.5, 1, torch.arange(3), 0)
    assert [(x.dtype, x.numel()) for x in kept] == [(torch.bool, 12)]


def test_none_and_all_and_nonsense() -> None:
    x = torch.randn(3, 4)
    rows = torch.arange(3)
    assert keyed_dropout(x, 0.0, 1, rows, 0) is x
    assert not dropout_mask(x.shape, 1 - 2**-40, 1, rows, 0).any()
    for p in (-0.1, 1.0, math.nan):
        with pytest.raises(ElmoxError, match=f"dropout is {p}, expected at least 0"):
            keyed_dropout(x, p, 1, rows, 0)


@needs_gpu
def test_a_gpu_drops_the_same_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, rows = torch.Size([2, 20, 64, 128]), torch.arange(64) + 2**33
    expected = dropout_mask(shape, 0.1, 2**64 - 5, rows, 2)
    assert torch.equal(dropout_mask(shape, 0.1, 2**64 - 5, rows.cuda(), 2).cpu(), expected)
    monkeypatch.setitem(dropout.ELEMENTS_AT_ONCE, "cuda", 1000)
    x = torch.randn(shape)
    ours = keyed_dropout(x.cuda(), 0.1, 2**64 - 5, rows, 2).cpu()
    torch.testing.assert_close(ours, keyed_dropout(x, 0.1, 2**64 - 5, rows, 2))
