"""The fused LSTM kernels against plain products: on a GPU, else by Triton's interpreter."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.lstm.plain import BatchedLstm, LstmWeights
from elmox.kernels.lstm.plain_pointwise import TorchPointwise
from elmox.kernels.lstm.plain_rows import PlainRows
from elmox.text.batches import time_major

with interpreted():
    from elmox.kernels.lstm.triton_layer import FusedLstm
    from elmox.kernels.lstm.triton_rows import FusedRows

# Relative error (Euclidean norms) against float32: what rounding to the precision makes of it.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
# Where a value is rounded to the other side of a bound, its gradient passes or not.
CLIPPED_TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 0.15, torch.float16: 3e-2}
DTYPES = [torch.bfloat16, torch.float16] if DEVICE == "cuda" else [torch.float32]
# directions, rows, input dimensions, projection, cells
SHAPES = [(2, 3, 8, 16, 32), (1, 70, 24, 8, 64)]
if DEVICE == "cuda":
    SHAPES += [(2, 130, 64, 64, 96), (2, 300, 128, 128, 1024), (2, 1024, 512, 512, 4096)]
CLIPS = [(0.4, 0.3), (None, None)]


@pytest.fixture(scope="module", autouse=True)
def _interpreted() -> Iterator[None]:
    with interpreted():
        yield


def layer(shape: tuple[int, ...], clips: Any, dtype: torch.dtype) -> LstmWeights:
    directions, _, width, dim, cells = shape
    return LstmWeights(
        draw(directions, 4 * cells, width, scale=width**-0.5).to(dtype),
        draw(directions, 4 * cells, dim, scale=dim**-0.5).to(dtype),
        draw(directions, 4 * cells, scale=0.1).to(dtype),
        draw(directions, dim, cells, scale=2 * cells**-0.5).to(dtype),
        *clips,
    )


def draw(*size: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(*size, device=DEVICE)


def tensors(weights: LstmWeights) -> list[torch.Tensor]:
    assert weights.projection is not None
    return [weights.input_weight, weights.recurrent_weight, weights.bias, weights.projection]


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.float() - expected.float()).norm() / expected.float().norm())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clips", CLIPS)
def test_reading_ragged_rows(shape: tuple[int, ...], clips: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    directions, num_rows, width, dim, cells = shape
    weights = layer(shape, clips, dtype)
    high: list[Any] = [tensor.float() for tensor in tensors(weights)]
    exact = LstmWeights(*high, *clips)
    sizes = time_major(np.random.default_rng(0).integers(1, 6, num_rows)).step_sizes.tolist()
    inputs = draw(directions, sum(sizes), width).to(dtype)
    states = [draw(directions, num_rows, n, scale=0.2).to(dtype) for n in (dim, cells)]
    actual, expected = [s.clone() for s in states], [s.float() for s in states]
    outputs = FusedLstm(weights)(inputs, sizes, *actual)
    reference = BatchedLstm(exact)(inputs.float(), sizes, *expected)
    for ours, plain in zip([outputs, *actual], [reference, *expected], strict=True):
        assert error(ours, plain) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clips", CLIPS)
def test_training_and_every_gradient(
    shape: tuple[int, ...], clips: Any, dtype: torch.dtype
) -> None:
    """Again in the same memory. On a GPU the second time records the loops, the third replays."""
    torch.manual_seed(1)
    directions, num_rows, width, dim, cells = shape
    num_steps = 3
    weights = layer(shape, clips, torch.float32)
    for _ in range(3 if DEVICE == "cuda" else 2):
        inputs = draw(directions, num_steps, num_rows, width).to(dtype)
        hidden = draw(directions, num_rows, dim, scale=0.2).to(dtype)
        given = [inputs, hidden, draw(directions, num_rows, cells, scale=0.2), *tensors(weights)]
        upstream = [draw(directions, num_steps, num_rows, dim), draw(directions, num_rows, dim)]
        results = []
        for fused, cast in ((True, dtype), (False, torch.float32)):
            leaves = [t.clone().requires_grad_() for t in given]
            if fused:
                outputs = FusedRows.apply(*leaves, *clips)  # type: ignore[no-untyped-call]
            else:
                exact = (t.float() for t in leaves)
                outputs = PlainRows.apply(*exact, *clips, TorchPointwise())  # type: ignore[no-untyped-call]
            torch.autograd.backward(outputs[:2], [u.to(cast) for u in upstream])
            results.append([*outputs, *(leaf.grad for leaf in leaves)])
        tolerance = TOLERANCE[dtype] if clips == (None, None) else CLIPPED_TOLERANCE[dtype]
        for ours, plain in zip(*results, strict=True):
            assert error(ours.detach(), plain.detach()) < tolerance


def test_a_layer_goes_back_once() -> None:
    weights = layer(SHAPES[0], (None, None), torch.float32)
    directions, num_rows, width, dim, cells = SHAPES[0]
    leaves = [
        draw(directions, 2, num_rows, width).to(DTYPES[0]).requires_grad_(),
        draw(directions, num_rows, dim).to(DTYPES[0]),
        draw(directions, num_rows, cells),
    ]
    outputs = FusedRows.apply(*leaves, *tensors(weights), None, None)  # type: ignore[no-untyped-call]
    total = outputs[0].float().sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second time"):
        total.backward()


def test_two_layers_in_flight_do_not_share_memory() -> None:
    """Both forward passes come before both backward passes, as in a stack."""
    torch.manual_seed(2)
    directions, num_rows, width, dim, cells = SHAPES[0]
    weights = layer(SHAPES[0], (0.4, 0.3), torch.float32)
    state = [draw(directions, num_rows, dim).to(DTYPES[0]), draw(directions, num_rows, cells)]
    gradients = []
    for together in (False, True):
        torch.manual_seed(3)
        leaves = [
            draw(directions, 2, num_rows, width).to(DTYPES[0]).requires_grad_() for _ in range(2)
        ]
        rest = (*state, *tensors(weights), 0.4, 0.3)
        if together:
            sums = [FusedRows.apply(leaf, *rest)[0].float().sum() for leaf in leaves]  # type: ignore[no-untyped-call]
            for total in sums:
                total.backward()
        else:
            for leaf in leaves:
                FusedRows.apply(leaf, *rest)[0].float().sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([leaf.grad for leaf in leaves])
    for alone, both in zip(*gradients, strict=True):
        assert alone is not None
        assert both is not None
        torch.testing.assert_close(alone, both, rtol=0, atol=0)
