"""The fused character CNN and highway against the plain ones: values and every gradient.

On a GPU where there is one; elsewhere Triton's interpreter runs the same kernels.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from triton_interpreter import DEVICE, interpreted

from elmox.config import CharCnnConfig
from elmox.kernels.char_cnn.dispatch import CharCnnWeights
from elmox.model.char_cnn import CharCnn
from elmox.model.highway import Highway
from elmox.text.chars import Spelling, spell_bytes

with interpreted():
    from elmox.kernels.char_cnn import triton_kernels as char_cnn_triton
    from elmox.kernels.highway import triton_kernels as highway_triton


@pytest.fixture(scope="module", autouse=True)
def _interpreted() -> Iterator[None]:
    with interpreted():
        yield


# Largest error of a value, and of a gradient's norm, relative to the plain result in float32.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 3e-2}
# The interpreter multiplies bfloat16 numbers as if they were integers.
LOW = [torch.float16] if DEVICE == "cpu" else [torch.float16, torch.bfloat16]
DTYPES = [torch.float32, *LOW]


@pytest.fixture(autouse=True, scope="module")
def exact_reference() -> Iterator[None]:
    """cuDNN rounds float32 numbers before it multiplies them, by default."""
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = allowed


def check(
    actual: Tensor, expected: Tensor, dtype: torch.dtype, what: str, least: float = 1e-3
) -> None:
    """Against the size of what is expected, but at least against a given one."""
    scale = max(float(expected.detach().norm()), least)
    error = float((actual.detach().to(expected.dtype) - expected.detach()).norm()) / scale
    assert error < TOLERANCE[dtype], f"{what}: {error}"


def round_to(module: nn.Module, dtype: torch.dtype) -> None:
    """Both ways then start from the same numbers."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.to(dtype))


def kernels(char_cnn: CharCnn, ids: Tensor, lengths: Tensor | None) -> Tensor:
    weights = CharCnnWeights(
        char_cnn.embedding.weight,
        [convolution.weight for convolution in char_cnn.convolutions],  # type: ignore[misc]
        [convolution.bias for convolution in char_cnn.convolutions],  # type: ignore[misc]
    )
    assert char_cnn_triton.fits(char_cnn.config, char_cnn_triton.working_dtype(weights.table))
    return char_cnn_triton.char_cnn(char_cnn.config, ids, lengths, weights)


def plain(char_cnn: CharCnn, ids: Tensor) -> Tensor:
    return char_cnn.activation(char_cnn._convolve(ids))


def spelled(spelling: Spelling) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(spelling.ids).to(DEVICE), torch.from_numpy(spelling.lengths)


def compare(config: CharCnnConfig, spelling: Spelling, dtype: torch.dtype, trimmed: bool) -> None:
    """Forward and back under autocast, then without gradients."""
    char_cnn = CharCnn(config).to(DEVICE)
    round_to(char_cnn, dtype)
    ids, lengths = spelled(spelling)
    upstream = torch.randn(len(ids), config.num_filters).to(DEVICE, dtype)
    expected = plain(char_cnn, ids)
    parameters = dict(char_cnn.named_parameters())
    gradients = torch.autograd.grad(expected, list(parameters.values()), upstream.float())
    with torch.autocast(DEVICE, dtype, enabled=dtype != torch.float32):
        actual = kernels(char_cnn, ids, lengths if trimmed else None)
    assert actual.dtype == dtype
    check(actual, expected, dtype, "forward")
    ours = torch.autograd.grad(actual, list(parameters.values()), upstream)
    for name, mine, theirs in zip(parameters, ours, gradients, strict=True):
        check(mine, theirs, dtype, name, least=0.1)  # sums of numbers of about 1, which may cancel
    with torch.no_grad():
        again = kernels(char_cnn.to(dtype), ids, lengths)
    if DEVICE == "cuda":
        assert torch.equal(again, actual.detach())
    else:  # the interpreter's products are NumPy's, whose last bits may depend on alignment
        torch.testing.assert_close(again, actual.detach(), rtol=1e-6, atol=1e-6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    filters=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=4),
    activation=st.sampled_from(("relu", "tanh")),
    dim=st.sampled_from((1, 3, 16)),
    max_characters=st.integers(6, 20),
    words=st.lists(st.text("abé€", max_size=20), min_size=1, max_size=20),
    trimmed=st.booleans(),
    seed=st.integers(0, 99),
)
@example([(1, 4), (4, 1), (2, 2)], "tanh", 16, 6, ["", "€"], False, 22)  # a bias of -0.01 is left
def test_any_configuration(
    filters: list[tuple[int, int]],
    activation: Any,
    dim: int,
    max_characters: int,
    words: list[str],
    trimmed: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    config = CharCnnConfig(
        tuple(filters), dim, max_characters=max_characters, activation=activation
    )
    compare(config, spell_bytes(words, max_characters), torch.float32, trimmed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("widths", "dim", "num_words"), [((1, 3, 7), 16, 140), ((2, 4), 16, 70), ((1, 3), 50, 40)]
)
def test_several_blocks(
    dtype: torch.dtype, widths: tuple[int, ...], dim: int, num_words: int
) -> None:
    """More words and filters than one program takes, windows with and without a spare slot."""
    torch.manual_seed(num_words)
    config = CharCnnConfig(tuple((width, 23) for width in widths), dim, max_characters=24)
    words = ["x" * (i * 7 % 6) + str(i) for i in range(num_words - 1)] + ["a rather long word"]
    compare(config, spell_bytes(words, 24), dtype, trimmed=True)


def test_the_first_of_equals_wins() -> None:
    """As torch.max: padding windows are all alike, and the gradient goes to the first."""
    config = CharCnnConfig(((2, 3),), 4, max_characters=12)
    char_cnn = CharCnn(config).to(DEVICE)
    with torch.no_grad():
        char_cnn.embedding.weight.fill_(0.5)
        char_cnn.convolutions[0].bias.fill_(2.0)  # type: ignore[operator]
    ids, _ = spelled(spell_bytes(["abcdef", "b", "cc"], 12))
    parameters = list(char_cnn.parameters())
    theirs = torch.autograd.grad(plain(char_cnn, ids).sum(), parameters)
    ours = torch.autograd.grad(kernels(char_cnn, ids, None).sum(), parameters)
    for mine, expected in zip(ours, theirs, strict=True):
        check(mine, expected, torch.float32, "gradient")


def test_nan_is_not_hidden() -> None:
    char_cnn = CharCnn(CharCnnConfig(((1, 2), (3, 2)), 4, max_characters=12)).to(DEVICE)
    ids, lengths = spelled(spell_bytes(["abc", "b"], 12))
    with torch.no_grad():
        char_cnn.embedding.weight[ord("a") + 1] = np.nan
        vectors = kernels(char_cnn, ids, lengths)
    assert vectors.isnan().tolist() == [[True] * 4, [False] * 4]


def test_unsupported_sizes() -> None:
    fits = char_cnn_triton.fits
    assert not fits(CharCnnConfig(max_characters=256), torch.bfloat16)
    assert not fits(CharCnnConfig(embedding_dim=1000), torch.bfloat16)
    assert fits(CharCnnConfig(embedding_dim=50), torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_words", "dim"), [(1, 5), (70, 48), (3, 1030)])
def test_highway(dtype: torch.dtype, num_words: int, dim: int) -> None:
    torch.manual_seed(dim)
    highway = Highway(dim).to(DEVICE)
    round_to(highway, dtype)
    carry, transform = highway.carry, highway.transform
    x = torch.randn(num_words, dim, device=DEVICE).to(dtype).float().requires_grad_()
    leaves = [x, carry.weight, carry.bias, transform.weight, transform.bias]
    upstream = torch.randn(num_words, dim).to(DEVICE, dtype)
    gate, transformed = torch.sigmoid(carry(x)), transform(x)
    # Next to ReLU's corner rounding decides the slope, and one word of three is all of a gradient:
    # a GPU adds up parts of a bfloat16 product in bfloat16, which turned signs below 0.002.
    upstream[transformed.abs() < 0.01] = 0
    expected = torch.lerp(x, torch.relu(transformed), gate)
    gradients = torch.autograd.grad(expected, leaves, upstream.float())
    with torch.autocast(DEVICE, dtype, enabled=dtype != torch.float32):
        actual = highway_triton.highway(*leaves)
    assert actual.dtype == dtype
    check(actual, expected, dtype, "forward")
    names = ("x", "carry", "carry bias", "transform", "transform bias")
    ours = torch.autograd.grad(actual, leaves, upstream)
    for name, mine, theirs in zip(names, ours, gradients, strict=True):
        check(mine, theirs, dtype, name)
    with torch.no_grad():
        low = [leaf.to(dtype) for leaf in leaves]
        check(highway_triton.highway(*low), expected, dtype, "without gradients")
