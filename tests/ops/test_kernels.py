"""Every fast path against the plain one, over random shapes, lengths and clips."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox.config import CharCnnConfig, LstmConfig
from elmox.model.char_cnn import CharCnn
from elmox.model.lstm import LstmLayer
from elmox.ops.lstm import BatchedLstm, LstmKernel, LstmWeights
from elmox.ops.lstm_pointwise import TorchPointwise
from elmox.ops.packed_linear import PackedLinear, can_pack
from elmox.ops.packed_lstm import PackedLstm
from elmox.ops.select import LstmKernels, lstm_kernel, lstm_pointwise, paths
from elmox.text.batches import time_major
from elmox.text.chars import spell_bytes

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
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
                found = run_kernel(kernel, inputs * mask[..., None], lengths, h, c, cut)
                for ours, theirs in zip(found, expected, strict=True):
                    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


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


def test_kernels_follow_the_weights_and_copies_start_empty() -> None:
    kernels, made = LstmKernels(), []

    def weights() -> list[LstmWeights]:
        made.append(1)
        return [random_layer(LstmConfig(8, 4), len(made), torch.float32).weights()]

    first = kernels.get("a", weights)
    assert kernels.get("a", weights) is first
    assert kernels.get("b", weights) is not first
    for again in (copy.deepcopy(kernels), pickle.loads(pickle.dumps(kernels))):
        again.get("b", weights)
    assert len(made) == 4


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
    found = char_cnn.infer(ids, torch.from_numpy(spelling.lengths))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_paths_say_what_runs_and_why() -> None:
    """What `elmox info` shows agrees with what is chosen."""
    for dtype in (torch.float32, torch.float64):
        like = torch.zeros(1, dtype=dtype)
        found = paths(like)
        assert found["reading"].startswith("packed" if can_pack(like) else "batched")
        assert found["training"] == "plain torch (Triton is for GPUs, not for cpu)"
        assert isinstance(lstm_pointwise(like), TorchPointwise)
