"""8-bit products: close to float32, row by row, and a way to run that leaves the weights alone."""

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox import Elmo, ElmoxError
from elmox.config import LstmConfig
from elmox.kernels.linear import cpu_int8 as int8_linear
from elmox.kernels.linear import dispatch
from elmox.kernels.linear.cpu_int8 import Int8Linear, require_int8, why_not_int8
from elmox.kernels.lstm.cpu_packed import PackedLstm
from elmox.kernels.lstm.dispatch import lstm_kernel
from elmox.model.lstm import LstmLayer

pytestmark = pytest.mark.skipif(why_not_int8() is not None, reason=str(why_not_int8()))

# Without VNNI, 8-bit activations overflow the 16 bits in which pairs of products are added.
LEVELS = (127, 63) if torch.cpu._is_vnni_supported() else (63,)
SENTENCES = [["Live", "in", "the", "present"], [], ["I", "will", "buy", "the", "the"], ["x"]]


@pytest.fixture(autouse=True, scope="module")
def every_product_in_int8() -> Iterator[None]:
    """Those of these small models would run in float32."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "MIN_INT8_PRODUCTS", 1)
        yield


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 70),
    inner=st.integers(1, 300),
    outer=st.integers(1, 70),
    scale=st.sampled_from((1e-6, 1.0, 1e3)),
    levels=st.sampled_from(LEVELS),
)
def test_products(rows: int, inner: int, outer: int, scale: float, levels: int) -> None:
    """Within the rounding of both factors, whatever their size."""
    generator = torch.Generator().manual_seed(rows * inner + outer)
    weight = torch.randn(outer, inner, generator=generator) * scale
    x = torch.randn(rows, inner, generator=generator) / scale
    x[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8_linear, "_num_levels", lambda: levels)
        linear = Int8Linear(weight)
    other = torch.randn(rows, outer, generator=generator)
    steps = x.abs().amax(1, keepdim=True) / levels, weight.abs().amax(1) / 127
    room = (weight.abs().sum(1) * steps[0] + x.abs().sum(1, keepdim=True) * steps[1]) * 0.6 + 1e-5
    assert ((linear.plus(x, other) - (x @ weight.T + other)).abs() <= room).all()
    assert ((linear(x, other[0]) - (x @ weight.T + other[0])).abs() <= room).all()
    assert linear(x)[0].abs().max() == 0


def test_extreme_values_do_not_overflow() -> None:
    """The largest integers everywhere: sums that 16 bits could not hold."""
    x, weight = torch.ones(3, 512), torch.full((8, 512), -1.0)
    torch.testing.assert_close(Int8Linear(weight)(x), torch.full((3, 8), -512.0))


def test_a_row_does_not_depend_on_others() -> None:
    linear, x = Int8Linear(torch.randn(24, 40)), torch.randn(33, 40)
    together = linear(x)
    for row in range(len(x)):
        assert torch.equal(linear(x[row : row + 1])[0], together[row])
    assert torch.equal(linear(torch.cat([x, 1e6 * x]))[:33], together)


def test_the_layer_is_close_to_float32() -> None:
    layer = LstmLayer(LstmConfig(64, 32, cell_clip=3.0, proj_clip=3.0))
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.1, generator=generator)
    inputs, sizes = torch.randn(2, 70, 32, generator=generator), [7] * 10
    kernel = lstm_kernel(layer.weights(), int8=True)
    assert isinstance(kernel, PackedLstm)
    actual = kernel(inputs, sizes, torch.zeros(2, 7, 32), torch.zeros(2, 7, 64))
    exact = lstm_kernel(layer.weights())(
        inputs, sizes, torch.zeros(2, 7, 32), torch.zeros(2, 7, 64)
    )
    assert torch.cosine_similarity(actual, exact, dim=-1).min() > 0.999
    assert not torch.equal(actual, exact)


def test_a_way_to_run_and_not_to_store(tiny: Path, tmp_path: Path) -> None:
    exact = Elmo.from_pretrained(tiny, device="cpu")
    elmo = Elmo.from_pretrained(tiny, dtype="int8")
    assert (elmo.dtype, elmo.device.type) == (torch.int8, "cpu")
    expected, actual = exact.encode_tokens(SENTENCES), elmo.encode_tokens(SENTENCES)
    assert actual[0].dtype == np.float32
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=0.05)
    assert np.abs(expected[0] - actual[0]).max() > 0
    for copied in (copy.deepcopy(elmo.reader), pickle.loads(pickle.dumps(elmo.reader))):
        assert copied.bilm.int8
    elmo.save_pretrained(tmp_path / "saved")
    for same in (Elmo.from_pretrained(tmp_path / "saved"), elmo.to(dtype="float32")):
        assert same.dtype == torch.float32
        for a, b in zip(expected, same.encode_tokens(SENTENCES), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


def test_warm_state_and_tensors(tiny: Path) -> None:
    elmo = Elmo.from_pretrained(tiny, dtype="int8")
    cold = elmo.encode_tokens(SENTENCES)[0]
    elmo.warm_up([["some", "text"]])
    tensor = elmo.encode_tokens(SENTENCES, convert_to_tensor=True)[0]
    assert tensor.dtype == torch.float32
    assert np.abs(tensor.numpy() - cold).max() > 0


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_only_on_a_cpu(tiny: Path, device: str) -> None:
    message = f"dtype='int8' on device='{device}': int8 is for CPUs"
    with pytest.raises(ElmoxError, match=message):
        require_int8(device)
    with pytest.raises(ElmoxError, match=message):
        Elmo.from_pretrained(tiny, device=device, dtype="int8")
    elmo = Elmo.from_pretrained(tiny, dtype="int8")
    with pytest.raises(ElmoxError, match=message):
        elmo.to(device)
    assert (elmo.dtype, elmo.device.type) == (torch.int8, "cpu")
