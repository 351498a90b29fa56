"""Products chosen by the number of rows: weights in 16 bits, packed float32, 8-bit integers."""

import warnings
from collections.abc import Iterator

import pytest
import torch

from elmox.config import LstmConfig
from elmox.kernels.linear import dispatch
from elmox.kernels.linear.cpu_half import HalfLinear, can_halve, max_half_rows
from elmox.kernels.linear.cpu_int8 import Int8Linear, why_not_int8
from elmox.kernels.linear.cpu_packed import PackedLinear, can_pack
from elmox.kernels.linear.dispatch import FloatLinear, Int8OrFloatLinear
from elmox.kernels.lstm.dispatch import lstm_kernel
from elmox.model.lstm import LstmLayer

ROWS = (1, 2, 4, 5, 24, 25, 70)
halves = pytest.mark.skipif(
    not can_halve(torch.zeros(1, 1)), reason="this torch has no products with 16-bit weights"
)


@pytest.fixture(autouse=True, params=(1, 2, 3))
def num_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def half_weight(*shape: int) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) / 16).half().float()


@halves
@pytest.mark.parametrize("rows", ROWS)
def test_half_weights(rows: int) -> None:
    """Exact weights: all numbers of float16, also subnormal ones."""
    weight = half_weight(40, 33)
    weight[0, 0], weight[1, 1], weight[2, 2] = 65504, 2**-24, -(2**-14)
    x, other = torch.randn(rows, 33), torch.randn(rows, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for linear in (HalfLinear(weight), FloatLinear(lambda: weight)):
            exact = x.double() @ weight.double().T
            for actual, expected in (
                (linear(x), exact),
                (linear(x, other[0]), exact + other[0]),
                (linear.plus(x, other), exact + other),
            ):
                torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=1e-4)
    assert torch.equal(HalfLinear(weight)(torch.eye(33)).T, weight)


@halves
@pytest.mark.parametrize("number", [1 / 3, 1e6, 1e-9, float("nan")])
def test_weights_that_16_bits_would_change(number: float) -> None:
    weight = half_weight(3, 4)
    assert can_halve(weight)
    weight[2, 3] = number
    assert not can_halve(weight)
    assert isinstance(FloatLinear(lambda: weight).for_rows(1), PackedLinear)


@halves
def test_the_choice_by_rows(num_threads: int) -> None:
    weight, largest = half_weight(8, 8), {1: 24, 2: 4, 3: 0}[num_threads]
    assert max_half_rows() == largest
    linear, patient = FloatLinear(lambda: weight), FloatLinear(lambda: weight, num_packed=2)
    if largest:
        assert isinstance(linear.for_rows(largest), HalfLinear)
        kinds = [type(patient.for_rows(1)) for _ in range(4)]
        assert kinds == [PackedLinear, PackedLinear, HalfLinear, HalfLinear]
    assert isinstance(linear.for_rows(largest + 1), PackedLinear)


@pytest.mark.skipif(why_not_int8() is not None, reason=str(why_not_int8()))
def test_int8_for_large_products_only() -> None:
    weight = torch.randn(64, 64)
    linear = Int8OrFloatLinear(lambda: weight)
    most = (dispatch.MIN_INT8_PRODUCTS - 1) // 4096
    assert isinstance(linear.for_rows(most), PackedLinear)
    assert isinstance(linear.for_rows(most + 1), Int8Linear)


@halves
@pytest.mark.parametrize("projects", [True, False])
@pytest.mark.parametrize("int8", [True, False])
@pytest.mark.parametrize("sizes", [[1] * 6, [3, 3, 2, 1, 1], [30, 26, 20, 5, 2]])
def test_a_layer_of_16_bit_weights(projects: bool, int8: bool, sizes: list[int]) -> None:
    """The same as in float64, whatever the rows, with clipping; small products are never int8."""
    if int8 and why_not_int8() is not None:
        pytest.skip(str(why_not_int8()))
    config = LstmConfig(
        24, 16 if projects else 24, cell_clip=0.5, proj_clip=0.3, has_projection=projects
    )
    layer = LstmLayer(config)
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).half().float()
    dim = config.projection_dim
    inputs = torch.randn(2, sum(sizes), dim, generator=generator)
    state = [torch.randn(2, sizes[0], n, generator=generator) / 4 for n in (dim, config.cell_dim)]
    again = [part.double() for part in state]
    assert can_pack(layer.input_weight)
    actual = lstm_kernel(layer.weights(), int8=int8)(inputs, sizes, *state)
    expected = lstm_kernel(layer.double().weights())(inputs.double(), sizes, *again)
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=2e-5)
    for ours, theirs in zip(state, again, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=2e-5)
