"""The training network against the plain reference, finite differences, and itself."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from elmox.config import CharCnnConfig, ElmoConfig, LstmConfig, WordConfig
from elmox.kernels.cross_entropy.dispatch import full_cross_entropy
from elmox.model.bilm import BiLm
from elmox.model.init import random_bilm
from elmox.model.state import LstmState, zero_state
from elmox.text.chars import spell_bytes
from elmox.text.words import WordTable
from elmox.training.network import TrainingNetwork

CONFIG = ElmoConfig(
    lstm=LstmConfig(cell_dim=7, projection_dim=5, num_layers=2, cell_clip=0.5, proj_clip=0.4),
    char_cnn=CharCnnConfig(filters=((1, 3), (2, 4)), embedding_dim=3, num_highways=1),
)
WORDS = ["<S>", "</S>", "a", "model", "reads", "café", "characters"]


def _table(config: ElmoConfig) -> WordTable:
    ids = np.arange(len(WORDS)) if config.words else None
    return WordTable(spell_bytes(WORDS) if config.char_cnn else None, ids)


def _inputs(num_directions: int, steps: int, rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(len(WORDS), (num_directions, steps, rows), generator=generator)


def _state(config: ElmoConfig, rows: int, dtype: torch.dtype) -> LstmState:
    """Return a state that is not zero, as if carried on."""
    state = zero_state(config.lstm, rows, torch.device("cpu"), dtype)
    generator = torch.Generator().manual_seed(7)
    return LstmState(
        torch.rand(state.hidden.shape, generator=generator, dtype=dtype) - 0.5,
        torch.rand(state.cell.shape, generator=generator, dtype=dtype) - 0.5,
    )


def _network(config: ElmoConfig, dropout: float = 0.0) -> tuple[BiLm, TrainingNetwork]:
    bilm = random_bilm(config, seed=1).double().requires_grad_(True)
    return bilm, TrainingNetwork(bilm, dropout, torch.float64)


CONFIGS = {
    "both": CONFIG,
    "forward only": replace(CONFIG, lstm=replace(CONFIG.lstm, bidirectional=False)),
    "no skip, no clips": replace(
        CONFIG,
        lstm=replace(CONFIG.lstm, skip_connections=False, cell_clip=None, proj_clip=None),
    ),
    "words": replace(CONFIG, char_cnn=None, words=WordConfig(len(WORDS), 6)),
    "no projection": replace(
        CONFIG,
        lstm=replace(CONFIG.lstm, cell_dim=5, has_projection=False, proj_clip=None),
    ),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_equals_the_reference(config: ElmoConfig) -> None:
    """Against `BiLm.forward`, one row at a time."""
    bilm, network = _network(config)
    directions, steps, rows = config.lstm.num_directions, 6, 3
    # The reference reads one text in both directions, so the backward stream is its mirror.
    forward = _inputs(1, steps, rows)
    inputs = torch.cat([forward, forward.flip(1)])[:directions]
    state = _state(config, rows, torch.float64)
    top, hidden, cell, _ = network(_table(config), inputs, state, torch.arange(rows), [0, 0, 0])
    vectors = bilm.token_encoder(_table(config))
    tokens = vectors[forward[0].T.reshape(-1)]  # sentence after sentence
    layers, after = bilm(tokens, np.full(rows, steps), state)
    halves = layers[-1].view(rows, steps, directions, -1).permute(2, 1, 0, 3)  # (D, T, B, P)
    expected = torch.stack([half if d == 0 else half.flip(0) for d, half in enumerate(halves)])
    torch.testing.assert_close(top, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(hidden, after.hidden, rtol=0, atol=1e-12)
    torch.testing.assert_close(cell, after.cell, rtol=0, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_gradients_agree_with_finite_differences(config: ElmoConfig) -> None:
    """The whole model with dropout in float64: a few entries of every parameter."""
    bilm, network = _network(config, dropout=0.3)
    directions = config.lstm.num_directions
    inputs, targets = _inputs(directions, 4, 3), _inputs(directions, 4, 3, seed=5)
    state = _state(config, 3, torch.float64)
    generator = torch.Generator().manual_seed(2)
    dim = config.lstm.projection_dim
    weight = torch.randn(len(WORDS), dim, generator=generator, dtype=torch.float64)
    bias = torch.randn(len(WORDS), generator=generator, dtype=torch.float64)
    softmax = {"weight": weight.requires_grad_(), "bias": bias.requires_grad_()}

    def loss() -> Tensor:
        top, *_ = network(_table(config), inputs, state, torch.arange(3), [11, 12, 13])
        flat = top.flatten(0, 2)
        return full_cross_entropy(flat, softmax["weight"], softmax["bias"], targets.flatten())

    torch.autograd.backward(loss())
    for name, parameter in [*bilm.named_parameters(), *softmax.items()]:
        _check(name, parameter, loss, generator)


def _check(
    name: str, parameter: Tensor, loss: Callable[[], Tensor], generator: torch.Generator
) -> None:
    grad = parameter.grad
    assert grad is not None, name
    flat, step = parameter.detach().view(-1), 1e-6
    largest = grad.abs().view(-1).topk(min(3, flat.numel())).indices
    others = torch.randint(flat.numel(), (3,), generator=generator)
    for i in torch.cat([largest, others]).tolist():
        before = flat[i].item()
        values = []
        for shift in (step, -step):
            flat[i] = before + shift
            with torch.no_grad():
                values.append(loss().item())
        flat[i] = before
        slope = (values[0] - values[1]) / (2 * step)
        assert grad.view(-1)[i].item() == pytest.approx(slope, rel=1e-5, abs=1e-6), name


def test_carried_state_equals_one_long_pass() -> None:
    _, network = _network(CONFIG)
    inputs, rows = _inputs(2, 12, 4), torch.arange(4)
    state = _state(CONFIG, 4, torch.float64)
    keys = [0, 0, 0]
    whole, hidden, cell, _ = network(_table(CONFIG), inputs, state, rows, keys)
    parts = []
    for window in (inputs[:, :5], inputs[:, 5:10], inputs[:, 10:]):
        top, h, c, _ = network(_table(CONFIG), window, state, rows, keys)
        state = LstmState(h, c)
        parts.append(top)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.hidden, hidden, rtol=0, atol=1e-12)
    torch.testing.assert_close(state.cell, cell, rtol=0, atol=1e-12)


def test_dropout_follows_the_global_row() -> None:
    """Rows have the same dropout alone as together, and another one at every step."""
    _, network = _network(CONFIG, dropout=0.5)
    inputs, state = _inputs(2, 6, 4), _state(CONFIG, 4, torch.float64)
    rows = torch.arange(4)
    whole, *_ = network(_table(CONFIG), inputs, state, rows, [1, 2, 3])
    for some in (rows[:1], rows[1:]):
        part, *_ = network(_table(CONFIG), inputs[:, :, some], state.rows(some), some, [1, 2, 3])
        torch.testing.assert_close(part, whole[:, :, some], rtol=0, atol=1e-12)
    other, *_ = network(_table(CONFIG), inputs, state, rows, [4, 5, 6])
    assert (other != whole).any()


def test_bfloat16_is_close() -> None:
    bilm = random_bilm(CONFIG, seed=1)
    inputs, state = _inputs(2, 8, 4), _state(CONFIG, 4, torch.float32)
    rows = torch.arange(4)
    exact, *_ = TrainingNetwork(bilm, 0.0, torch.float32)(
        _table(CONFIG), inputs, state, rows, [0, 0, 0]
    )
    low, hidden, cell, _ = TrainingNetwork(bilm, 0.0, torch.bfloat16)(
        _table(CONFIG), inputs, state, rows, [0, 0, 0]
    )
    assert low.dtype == torch.bfloat16
    assert cell.dtype == torch.float32
    torch.testing.assert_close(low.float(), exact, rtol=0, atol=0.03)
    assert hidden.shape == state.hidden.shape
    low.float().square().sum().backward()
    grads = [p.grad for p in bilm.parameters()]
    assert all(g is not None and g.dtype == torch.float32 for g in grads)


def test_gradients_are_the_same_to_the_last_bit_with_several_threads() -> None:
    """Exact resuming depends on it: threads must sum the gradients of many tokens of few words."""
    lstm = replace(CONFIG.lstm, projection_dim=64)
    bilm = random_bilm(replace(CONFIG, lstm=lstm), seed=1).requires_grad_(True)
    network = TrainingNetwork(bilm, 0.1, torch.float32)
    inputs, state = _inputs(2, 20, 64), _state(bilm.config, 64, torch.float32)
    runs = []
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for _ in range(20):
            bilm.zero_grad()
            top, *_ = network(_table(CONFIG), inputs, state, torch.arange(64), [1, 2, 3])
            torch.autograd.backward(top.square().sum())
            grads = {name: p.grad for name, p in bilm.named_parameters()}
            runs.append({name: grad for name, grad in grads.items() if grad is not None})
    finally:
        torch.set_num_threads(threads)
    assert len(runs[0]) == len(list(bilm.parameters()))
    for gradients in runs[1:]:
        for name, gradient in gradients.items():
            assert torch.equal(gradient, runs[0][name]), name
