"""Matrices in 8 bits: how near, how often the same, and what a file must not hold."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmox import ElmoxError
from elmox.io.quantized import SCALES, dequantize, group_length, packed, quantize, read_weights
from elmox.io.tensors import write_tensors


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 200)),
    most=st.integers(1, 256),
    scale=st.floats(-4, 3),
    seed=st.integers(0, 2**31),
)
def test_every_value_is_within_half_a_step_or_clipped_for_a_smaller_error(
    shape: tuple[int, ...], most: int, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(shape, generator=generator) * 10**scale
    integers, scales = quantize(matrix, most)
    assert (integers.dtype, integers.shape) == (torch.int8, shape)
    size = group_length(shape[-1], most)
    assert size <= most
    assert scales.shape == (*shape[:-1], shape[-1] // size)
    restored = dequantize(integers, scales)
    groups = matrix.reshape(-1, size).double()
    errors = restored.reshape(-1, size).double() - groups
    step = groups.abs().amax(1, keepdim=True) / 127
    plain = (groups / step).round()  # without any search, and with an exact scale
    # The stored scale is a float16, at most 2**-11 of itself away, or 2**-24 near 0. An integer
    # multiplies this distance, and it adds to the error of the value itself.
    drift = (step * 2.0**-11).clamp_min(2.0**-24) * 1.001
    bound = (plain * step - groups).abs() + plain.abs() * drift
    assert (errors.square().sum(1) <= bound.square().sum(1) * 1.001).all()


def test_restored_matrices_give_the_same_integers_again() -> None:
    matrix = torch.randn(64, 512, generator=torch.Generator().manual_seed(0))
    matrix[0, 3] = 40.0  # an outlier, which is worth clipping or not
    matrix[1] = 0.0
    integers, scales = quantize(matrix, 128)
    assert torch.equal(dequantize(integers, scales)[1], torch.zeros(512))
    again = quantize(dequantize(integers, scales), 128)
    assert torch.equal(again[0], integers)
    assert torch.equal(again[1], scales)


def test_groups_keep_an_outlier_to_itself() -> None:
    matrix = torch.randn(1, 256, generator=torch.Generator().manual_seed(0))
    matrix[0, 0] = 1000.0

    def error(most: int) -> float:
        return float((dequantize(*quantize(matrix, most)) - matrix)[0, 128:].square().sum())

    assert error(128) < error(256) / 1000


def test_only_named_matrices_are_packed(tmp_path: Path) -> None:
    tensors = {
        "large": torch.randn(4, 64),
        "small": torch.randn(4, 8),
        "beyond": torch.full((2, 2), 7e4),
        "bias": torch.randn(4),
        "gamma": torch.tensor(1.5),
    }
    stored = packed(tensors, lambda name: 32 if name == "large" else None)
    assert {name: tensor.dtype for name, tensor in stored.items()} == {
        "large": torch.int8, "large.scales": torch.float16, "small": torch.float16,
        "beyond": torch.float32, "bias": torch.float32, "gamma": torch.float32,
    }  # fmt: skip
    write_tensors(stored, tmp_path / "w.safetensors")
    weights = read_weights(tmp_path / "w.safetensors", eight_bit=True)
    assert weights.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert weights[name].dtype == torch.float32
        torch.testing.assert_close(weights[name], tensor, rtol=1e-3, atol=2e-2)
    assert torch.equal(weights["bias"], tensors["bias"])
    with pytest.raises(ElmoxError, match=r"large holds torch\.int8, expected floating point"):
        read_weights(tmp_path / "w.safetensors")


def damaged(scales: Any = None, integers: Tensor | None = None) -> dict[str, Tensor]:
    tensors = {"m": torch.ones(4, 8, dtype=torch.int8) if integers is None else integers}
    return tensors if scales is None else {**tensors, f"m{SCALES}": scales}


BAD = {
    "no scales": damaged(),
    "other rows": damaged(torch.ones(3, 2).half()),
    "groups that do not divide": damaged(torch.ones(4, 3).half()),
    "no groups": damaged(torch.ones(4, 0).half()),
    "more groups than columns": damaged(torch.ones(4, 16).half()),
    "a scalar": damaged(torch.ones(()).half()),
    "a vector": damaged(torch.ones(1), torch.ones(8, dtype=torch.int8)),
    "an empty matrix": damaged(torch.ones(0, 1), torch.ones(0, 8, dtype=torch.int8)),
    "NaN": damaged(torch.full((4, 2), torch.nan).half()),
    "infinite": damaged(torch.full((4, 2), torch.inf)),
    "negative": damaged(-torch.ones(4, 2)),
    "integers for scales": damaged(torch.ones(4, 2, dtype=torch.int8)),
    "double precision": damaged(torch.ones(4, 2, dtype=torch.float64)),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_files_are_refused(name: str, tmp_path: Path) -> None:
    write_tensors(BAD[name], tmp_path / "w.safetensors")
    with pytest.raises(ElmoxError, match=r"w\.safetensors: m"):
        read_weights(tmp_path / "w.safetensors", eight_bit=True)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e9])
def test_values_that_8_bits_cannot_hold(value: float) -> None:
    with pytest.raises(ElmoxError, match="store it in float32"):
        quantize(torch.tensor([[1.0, value]]), 2)


def test_a_name_that_scales_need() -> None:
    tensors = {"m": torch.ones(2, 2), f"m{SCALES}": torch.ones(2, 1)}
    with pytest.raises(ElmoxError, match="rename one"):
        packed(tensors, lambda name: 2)
