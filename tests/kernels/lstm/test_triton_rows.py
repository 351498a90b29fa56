"""The fused LSTM kernels against plain products: on a GPU, else by Triton's interpreter."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from triton_interpreter import DEVICE, interpreted

from elmox.kernels.lstm.plain import BatchedLstm, LstmWeights
from elmox.kernels.lstm.plain_pointwise import TorchPointwise
from elmox.kernels.lstm.plain_rows import PlainRows
from elmox.text.batches import time_major

with interpreted():
    from elmox.kernels.lstm import triton_rows
    from elmox.kernels.lstm.triton_layer import FusedLstm
    from elmox.kernels.lstm.triton_rows import FusedRows
    from elmox.kernels.lstm.triton_step import deinterleaved

# Relative error (Euclidean norms) against float32: what rounding to the precision makes of it.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
BAND = 2  # how far from its bound a value may be rounded to the other side, in units of rounding
NUM_STEPS = 3
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
    return float((actual.double() - expected.double()).norm() / expected.double().norm())


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


class Problem(NamedTuple):
    """Inputs and states, weights, and the gradients of the outputs and of the last hidden state."""

    leaves: list[torch.Tensor]
    upstream: list[torch.Tensor]


def problem(shape: tuple[int, ...], dtype: torch.dtype, weights: LstmWeights) -> Problem:
    directions, num_rows, width, dim, cells = shape
    inputs = draw(directions, NUM_STEPS, num_rows, width).to(dtype)
    hidden = draw(directions, num_rows, dim, scale=0.2).to(dtype)
    cell = draw(directions, num_rows, cells, scale=0.2)
    upstream = [draw(directions, NUM_STEPS, num_rows, dim), draw(directions, num_rows, dim)]
    return Problem([inputs, hidden, cell, *tensors(weights)], upstream)


def by_kernels(given: Problem, clips: Any) -> list[torch.Tensor]:
    """Outputs, states and the gradients of all leaves, by the kernels."""
    leaves = [leaf.clone().requires_grad_() for leaf in given.leaves]
    return _results(leaves, FusedRows.apply(*leaves, *clips), given)  # type: ignore[no-untyped-call]


def by_torch(given: Problem, clips: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    """The same by plain products in a precision; in 16 bits, the cells are float32."""
    cell_dtype = dtype if dtype == torch.float64 else torch.float32
    dtypes = [cell_dtype if i == 2 else dtype for i in range(len(given.leaves))]
    leaves = [leaf.to(cell_dtype, copy=True).requires_grad_() for leaf in given.leaves]
    cast = (leaf.to(to) for leaf, to in zip(leaves, dtypes, strict=True))
    return _results(leaves, PlainRows.apply(*cast, *clips, TorchPointwise()), given)  # type: ignore[no-untyped-call]


def _results(leaves: list[Any], outputs: Any, given: Problem) -> list[torch.Tensor]:
    pairs = zip(outputs, given.upstream, strict=False)
    upstream = [gradient.to(output.dtype) for output, gradient in pairs]
    torch.autograd.backward(outputs[:2], upstream)
    return [tensor.detach().double() for tensor in (*outputs, *(leaf.grad for leaf in leaves))]


def excess(given: Problem, clips: Any, dtype: torch.dtype) -> float:
    """Return the largest error of the kernels against float64, relative to the allowed one.

    Allowed is twice the error of plain products in the same precision on the same problem, or that
    error and what rounding can do at bounds: a gradient passes a value within its bound and none
    beyond it, so a value that is rounded to the other side has another gradient. The exact
    gradients with bounds that are a bit lower and higher differ by all such values
    at once.
    """
    eps = torch.finfo(dtype).eps
    lower, exact, higher = (
        by_torch(given, [None if c is None else c * (1 + shift) for c in clips], torch.float64)
        for shift in (-BAND * eps, 0, BAND * eps)
    )
    ratios = []
    for kernel, plain, *exacts in zip(
        by_kernels(given, clips), by_torch(given, clips, dtype), exact, lower, higher, strict=True
    ):
        flipped = max(error(bound, exacts[0]) for bound in exacts[1:])
        rounded = error(plain, exacts[0])
        ratios.append(error(kernel, exacts[0]) / (rounded + max(rounded, flipped) + eps))
    return max(ratios)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("clips", CLIPS)
def test_training_and_every_gradient(
    shape: tuple[int, ...], clips: Any, dtype: torch.dtype
) -> None:
    """Again in the same memory. On a GPU the second time records the loops, the third replays."""
    torch.manual_seed(1)
    weights = layer(shape, clips, torch.float32)
    for _ in range(3 if DEVICE == "cuda" else 2):
        assert excess(problem(shape, dtype, weights), clips, dtype) < 1


def _without_bound(name: str) -> Callable[..., None]:
    """A step of the backward pass whose gradients also pass clipped values."""
    step = getattr(triton_rows, name)

    def passing(*arguments: Any) -> None:
        step(*arguments[:-1], math.inf)

    return passing


def _scaled(name: str, index: int, factor: float) -> Callable[..., None]:
    """A step one of whose results is a bit too large or too small."""
    step = getattr(triton_rows, name)

    def scaling(*arguments: Any) -> None:
        step(*arguments)
        arguments[index].mul_(factor)

    return scaling


FAULTS: dict[str, tuple[str, Callable[..., Any], tuple[float | None, float | None]]] = {
    "gradients pass clipped outputs": (
        "clip_outputs_backward", _without_bound("clip_outputs_backward"), (None, 0.3)
    ),
    "gradients pass clipped cells": (
        "backward_step", _without_bound("backward_step"), (0.4, None)
    ),
    "gates in another order": (
        "deinterleaved", lambda gates: deinterleaved(gates).flip(1), (0.4, 0.3)
    ),
    "gradients of cells 6% too small": (
        "backward_step", _scaled("backward_step", 4, 0.94), (None, None)
    ),
    "gradients of weights 6% too large": (
        "_unrounded_product", _scaled("_unrounded_product", 2, 1.06), (None, None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_kernel_is_found(
    fault: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    name, wrong, clips = FAULTS[fault]
    shape = SHAPES[0]
    given = problem(shape, dtype, layer(shape, clips, torch.float32))
    assert excess(given, clips, dtype) < 1
    triton_rows._free.clear()  # whose graphs are recorded
    monkeypatch.setattr(triton_rows, name, wrong)
    assert excess(given, clips, dtype) > 1.5
    triton_rows._free.clear()


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
