"""The output layer: probabilities, in whatever pieces they are computed, and bad arrays."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.kernels.cross_entropy.plain import LOGITS_AT_ONCE
from elmox.model import softmax
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax, softmax_from_tensors

V, P, N = 37, 16, 23


def full(num_words: int = V) -> FullSoftmax:
    layer = FullSoftmax(num_words, P)
    layer.init(torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.bias.normal_(generator=torch.Generator().manual_seed(1))
    return layer


def adaptive(cutoffs: tuple[int, ...] = (5, 12)) -> AdaptiveSoftmax:
    layer = AdaptiveSoftmax(V, P, cutoffs)
    layer.init(torch.Generator().manual_seed(0))
    return layer


LAYERS: dict[str, Callable[[], FullSoftmax | AdaptiveSoftmax]] = {
    "full": full,
    "adaptive": adaptive,
    "adaptive with one cut": lambda: adaptive((10,)),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())


def hidden(seed: int = 2) -> Tensor:
    return torch.randn(N, P, generator=torch.Generator().manual_seed(seed))


def targets() -> Tensor:
    return torch.arange(N) * 7 % V


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def test_full_softmax_is_a_softmax() -> None:
    layer = full().double()
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = log_softmax(hidden().double().numpy() @ weight.T + bias)
    log_probs = layer.log_probs(hidden().double()).detach().numpy()
    np.testing.assert_allclose(log_probs, expected, rtol=0, atol=1e-12)


def test_adaptive_softmax_is_a_softmax_of_clusters() -> None:
    """log p(word) = log p(its cluster) + log p(word | cluster), where frequent words have none."""
    layer = adaptive().double()
    x = hidden().double().numpy()
    arrays = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    head = log_softmax(x @ arrays["layer.head.weight"].T + arrays["layer.head.bias"])
    parts = [head[:, :5]]
    for cluster in range(2):
        inner = x @ arrays[f"layer.tail.{cluster}.0.weight"].T
        tail = log_softmax(inner @ arrays[f"layer.tail.{cluster}.1.weight"].T)
        parts.append(head[:, 5 + cluster, None] + tail)
    log_probs = layer.log_probs(hidden().double()).detach().numpy()
    np.testing.assert_allclose(log_probs, np.concatenate(parts, 1), rtol=0, atol=1e-12)


@every_layer
def test_probabilities_sum_to_one(make: Callable[[], FullSoftmax | AdaptiveSoftmax]) -> None:
    sums = make().log_probs(hidden()).exp().sum(-1)
    torch.testing.assert_close(sums, torch.ones(N), rtol=0, atol=1e-6)


@every_layer
@pytest.mark.parametrize(("logits", "positions"), [(1, 1), (7, 2), (40, 4), (100, 23), (10**6, 99)])
def test_pieces_change_nothing(
    make: Callable[[], FullSoftmax | AdaptiveSoftmax],
    logits: int,
    positions: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LOGITS_AT_ONCE, "cpu", logits)
    monkeypatch.setitem(softmax.POSITIONS_AT_ONCE, "cpu", positions)
    layer = make().double()
    expected = layer.log_probs(hidden().double()).gather(1, targets()[:, None]).squeeze(1)
    log_probs = layer.target_log_probs(hidden().double(), targets())
    torch.testing.assert_close(log_probs, expected.detach(), rtol=0, atol=1e-12)
    assert not log_probs.requires_grad


@every_layer
def test_low_precision_gives_float32(make: Callable[[], FullSoftmax | AdaptiveSoftmax]) -> None:
    low = make().bfloat16()
    expected = make().target_log_probs(hidden(), targets())
    for log_probs in (
        low.log_probs(hidden()).gather(1, targets()[:, None]).squeeze(1).detach(),
        low.target_log_probs(hidden(), targets()),
        make().target_log_probs(hidden().bfloat16(), targets()),
    ):
        assert log_probs.dtype == torch.float32
        torch.testing.assert_close(log_probs, expected, rtol=0, atol=0.1)


def test_large_logits_do_not_overflow() -> None:
    layer = FullSoftmax(3, 1)
    layer.load_state_dict({"weight": torch.tensor([[1e4], [-1e4], [0.0]]), "bias": torch.zeros(3)})
    log_probs = layer.target_log_probs(torch.tensor([[1.0], [1.0]]), torch.tensor([0, 1]))
    assert log_probs.tolist() == [0.0, -2e4]


@every_layer
def test_from_its_own_tensors(make: Callable[[], FullSoftmax | AdaptiveSoftmax]) -> None:
    layer = make()
    again = softmax_from_tensors(layer.state_dict(), V, P, "here")
    assert type(again) is type(layer)
    assert again.num_words == V
    assert not any(p.requires_grad for p in again.parameters())
    assert again.log_probs(hidden()).equal(layer.log_probs(hidden()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": None}, "here lacks bias"),
        ({"extra": torch.zeros(1)}, "here has an unknown array extra"),
        ({"weight": torch.zeros(V, P + 1)}, rf"weight has shape \({V}, {P + 1}\), but {V} words"),
        ({"bias": torch.zeros(V - 1)}, "bias has shape"),
        ({"bias": torch.full((V,), math.nan)}, "bias contains NaN"),
        ({"weight": torch.full((V, P), -math.inf)}, "weight contains NaN or infinite"),
    ],
)
def test_bad_tensors(change: dict[str, Tensor | None], message: str) -> None:
    changed = {**full().state_dict(), **change}
    tensors = {name: tensor for name, tensor in changed.items() if tensor is not None}
    with pytest.raises(ElmoxError, match=message):
        softmax_from_tensors(tensors, V, P, "here")


def test_one_bad_number_is_found() -> None:
    for bad in (math.nan, math.inf, -math.inf):
        tensors = full().state_dict()
        tensors["weight"][V // 2, 1] = bad
        with pytest.raises(ElmoxError, match="NaN or infinite"):
            softmax_from_tensors(tensors, V, P, "here")


@pytest.mark.parametrize("num_words", [V - 5, V + 1, 4])
def test_another_vocabulary(num_words: int) -> None:
    for layer in (full(), adaptive()):
        with pytest.raises(ElmoxError):
            softmax_from_tensors(layer.state_dict(), num_words, P, "here")


@pytest.mark.parametrize("cutoffs", [(), (0, 3), (5, 5), (7, 3), (V,), (3, V + 1)])
def test_bad_cutoffs(cutoffs: tuple[int, ...]) -> None:
    with pytest.raises(ElmoxError, match="cutoffs"):
        AdaptiveSoftmax(V, P, cutoffs)


def test_fresh_weights_are_bilm_tfs() -> None:
    layer = FullSoftmax(5000, 16)
    layer.init(torch.Generator().manual_seed(0))
    assert layer.weight.std().item() == pytest.approx(1 / 4, rel=0.02)
    assert (layer.bias == 0).all()
