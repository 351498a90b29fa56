"""Every fast path against the plain one, over random shapes, lengths and clips."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox.config import CharCnnConfig, LstmConfig
from elmox.kernels.derived import Derived
from elmox.kernels.linear.cpu_int8 import why_not_int8
from elmox.kernels.linear.cpu_packed import PackedLinear, can_pack
from elmox.kernels.lstm.cpu_packed import MIN_TABLE_INPUT, PackedLstm
from elmox.kernels.lstm.dispatch import lstm_kernel, lstm_pointwise
from elmox.kernels.lstm.plain import BatchedLstm, LstmKernel
from elmox.kernels.lstm.plain_pointwise import TorchPointwise
from elmox.kernels.paths import paths
from elmox.model.char_cnn import CharCnn
from elmox.model.highway import Highway
from elmox.model.lstm import LstmLayer
from elmox.text.batches import time_major
from elmox.text.chars import spell_bytes

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}  # float64 shows a wrong kernel
packs = pytest.mark.skipif(not can_pack(torch.zeros(1)), reason="this torch has no oneDNN")

configs = st.builds(
    LstmConfig,
    cell_dim=st.integers(1, 20),
    projection_dim=st.integers(1, 9),
    cell_clip=st.sampled_from((None, 0.3, 3.0)),
    proj_clip=st.sampled_from((None, 0.2, 3.0)),
    bidirectional=st.booleans(),
    forget_bias=st.sampled_from((0.0, 1.0)),
) | st.builds(
    LstmConfig, cell_dim=st.just(7), projection_dim=st.just(7), has_projection=st.just(False)
)


def random_layer(config: LstmConfig, seed: int, dtype: torch.dtype) -> LstmLayer:
    layer = LstmLayer(config).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return layer


def run_kernel(
    kernel: LstmKernel,
    inputs: torch.Tensor,
    lengths: list[int],
    h: torch.Tensor,
    c: torch.Tensor,
    cut: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Padded rows through a time-major kernel, in two windows, and back."""
    order = time_major(np.array(lengths))
    sizes = order.step_sizes.tolist()
    rows = torch.from_numpy(order.rows)
    steps = [(row, t) for t, size in enumerate(sizes) for row in order.rows[:size]]
    flat = torch.stack([inputs[:, row, t] for row, t in steps], dim=1)
    h, c = h[:, rows], c[:, rows]
    first = sum(sizes[:cut])
    parts = [kernel(flat[:, :first], sizes[:cut], h, c)] if cut else []
    parts += [kernel(flat[:, first:], sizes[cut:], h, c)] if cut < len(sizes) else []
    outputs = torch.zeros_like(inputs)
    for place, (row, t) in enumerate(steps):
        outputs[:, row, t] = torch.cat(parts, dim=1)[:, place]
    back = torch.argsort(rows)
    return outputs, h[:, back], c[:, back]


@settings(max_examples=80, deadline=None)
@given(
    config=configs,
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_lstm_kernels(
    config: LstmConfig, lengths: list[int], seed: int, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, max(lengths)))
    for dtype, tolerance in TOLERANCE.items():
        layer = random_layer(config, seed, dtype)
        generator = torch.Generator().manual_seed(seed)
        d, p, b = config.num_directions, config.projection_dim, len(lengths)
        inputs = torch.randn(d, b, max(lengths), p, dtype=dtype, generator=generator)
        h = torch.randn(d, b, p, dtype=dtype, generator=generator)
        c = torch.randn(d, b, config.cell_dim, dtype=dtype, generator=generator)
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        with torch.no_grad():
            expected = layer(inputs, mask, h, c)
            kernels: list[LstmKernel] = [BatchedLstm(layer.weights())]
            if can_pack(layer.input_weight):
                kernels.append(PackedLstm(layer.weights()))
            for kernel in kernels:
                actual = run_kernel(kernel, inputs * mask[..., None], lengths, h, c, cut)
                for ours, theirs in zip(actual, expected, strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@packs
@settings(max_examples=40, deadline=None)
@given(
    bidirectional=st.booleans(),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    num_words=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_a_layer_that_reads_words(
    bidirectional: bool, sizes: list[int], num_words: int, seed: int
) -> None:
    """The products of distinct words, looked up, are those of all tokens."""
    sizes = sorted(sizes, reverse=True)
    generator = torch.Generator().manual_seed(seed)
    config = LstmConfig(12, MIN_TABLE_INPUT, bidirectional=bidirectional)
    kernel = PackedLstm(random_layer(config, seed, torch.float32).weights())
    d, p, c = config.num_directions, config.projection_dim, config.cell_dim
    vectors = torch.randn(num_words, p, generator=generator) / 10
    words = torch.randint(num_words, (d, sum(sizes)), generator=generator)
    h = torch.randn(d, sizes[0], p, generator=generator) / 10
    c0 = torch.randn(d, sizes[0], c, generator=generator)
    word_lstm = kernel.for_words(vectors, 2 * num_words, 2)
    assert word_lstm is not None
    states = (h.clone(), c0.clone()), (h.clone(), c0.clone())
    expected = kernel(vectors[words], sizes, *states[0])
    actual = word_lstm(words, sizes, *states[1])
    for ours, theirs in zip((actual, *states[1]), (expected, *states[0]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


@packs
def test_a_table_of_words_only_where_it_saves_time() -> None:
    dim = MIN_TABLE_INPUT
    kernel = PackedLstm(random_layer(LstmConfig(8, dim), 0, torch.float32).weights())
    few, many = torch.zeros(10, dim), torch.zeros(1, dim).expand(2**21, dim)
    assert kernel.for_words(few, 20, 2) is not None
    assert kernel.for_words(few, 20, 1) is None
    assert kernel.for_words(few, 11, 2) is None
    assert kernel.for_words(few[:, 1:], 20, 2) is None
    assert kernel.for_words(many, 2**30, 2) is None


@packs
@pytest.mark.parametrize("rows", [0, 1, 9, 70])
def test_packed_highways(rows: int) -> None:
    highway, x = Highway(24), torch.randn(rows, 24)
    expected = highway(x)
    with torch.no_grad():
        torch.testing.assert_close(highway(x), expected, rtol=1e-5, atol=1e-6)
        highway.carry.bias.add_(1.0)
        actual = highway(x)
    torch.testing.assert_close(actual, highway(x), rtol=1e-5, atol=1e-6)


@packs
def test_the_packed_kernel_runs_in_float32_on_a_cpu() -> None:
    layer = random_layer(LstmConfig(8, 4), 0, torch.float32)
    assert isinstance(lstm_kernel(layer.weights()), PackedLstm)
    assert isinstance(lstm_kernel(layer.double().weights()), BatchedLstm)


@packs
@pytest.mark.parametrize("rows", [1, 2, 64, 300])
def test_packed_products(rows: int) -> None:
    weight, x, other = torch.randn(40, 24), torch.randn(rows, 24), torch.randn(rows, 40)
    packed = PackedLinear(weight)
    torch.testing.assert_close(packed(x, other[0]), x @ weight.T + other[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(packed.plus(x, other), x @ weight.T + other, rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    filters=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=4),
    activation=st.sampled_from(("relu", "tanh")),
    max_characters=st.integers(6, 20),
    words=st.lists(st.text("abé€", max_size=12), min_size=1, max_size=300),
)
def test_character_cnn_by_table(
    filters: list[tuple[int, int]], activation: str, max_characters: int, words: list[str]
) -> None:
    config = CharCnnConfig(
        tuple(filters),
        3,
        max_characters=max_characters,
        activation=activation,  # type: ignore[arg-type]
    )
    char_cnn = CharCnn(config).double()
    spelling = spell_bytes(words, max_characters)
    ids = torch.from_numpy(spelling.ids.astype(np.int64))
    with torch.no_grad():
        expected = char_cnn(ids)
    actual = char_cnn.infer(ids, torch.from_numpy(spelling.lengths))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_paths_say_what_runs_and_why() -> None:
    """`elmox info` shows the paths that are chosen."""
    weights = random_layer(LstmConfig(8, 4), 0, torch.float32).weights()
    chosen = paths(weights, torch.device("cpu"))
    inference = dict(part.split(": ", 1) for part in chosen["inference"].split("; "))
    assert set(inference) == {"float32", "bfloat16", "int8"}
    assert inference["float32"].startswith("packed" if can_pack(weights.bias) else "batched")
    assert inference["bfloat16"].startswith("batched")
    assert inference["int8"].startswith("packed") == (why_not_int8() is None)
    assert chosen["training"].startswith("float32: plain torch (Triton is for GPUs, not for cpu)")
    assert isinstance(lstm_pointwise(weights.bias), TorchPointwise)


def test_derived_values_follow_the_weights_and_copies_start_empty() -> None:
    weight, derived, made = torch.ones(3), Derived[float](), []

    def make() -> float:
        made.append(1)
        return float(weight.sum())

    assert [derived.get([weight], make) for _ in range(2)] == [3.0, 3.0]
    weight.mul_(2)
    assert [derived.get([weight], make) for _ in range(2)] == [6.0, 6.0]
    for again in (copy.deepcopy(derived), pickle.loads(pickle.dumps(derived))):
        again.get([weight], make)
    assert len(made) == 4
