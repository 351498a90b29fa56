"""The mix: equation 1 of the paper, and every option of it."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox import ElmoxError, LayerMix
from elmox.inference.layer_choice import choose_layers
from elmox.model.layer_mix import Mix

numbers = st.floats(-3, 3)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.data())
def test_equation_one(num_layers: int, num_mixes: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(0)
    layers = rng.normal(size=(num_layers, 2, 5, 3))
    mix = LayerMix(num_layers, num_mixes).double()
    weights = np.array(
        data.draw(st.lists(st.lists(numbers, min_size=num_layers, max_size=num_layers),
                           min_size=num_mixes, max_size=num_mixes))
    )  # fmt: skip
    gamma = np.array(data.draw(st.lists(numbers, min_size=num_mixes, max_size=num_mixes)))
    with torch.no_grad():
        assert mix.weights is not None
        mix.weights.copy_(torch.from_numpy(weights))
        mix.gamma.copy_(torch.from_numpy(gamma))
    s = np.exp(weights) / np.exp(weights).sum(1, keepdims=True)
    expected = np.einsum("k,kj,jbtd->kbtd", gamma, s, layers)
    np.testing.assert_allclose(mix(torch.from_numpy(layers)).detach(), expected, atol=1e-12)


def test_one_tensor_each_and_the_plain_average_to_begin_with() -> None:
    mix = LayerMix(3, 2)
    assert {name: tuple(p.shape) for name, p in mix.named_parameters()} == {
        "weights": (2, 3), "gamma": (2,),
    }  # fmt: skip
    layers = torch.randn(3, 4, 6)
    torch.testing.assert_close(mix(layers)[0], layers.mean(0))


@pytest.mark.parametrize(("choice", "index"), [("top", 2), (0, 0), (1, 1), (2, 2)])
@pytest.mark.parametrize("normalize", [None, "batch", "token"])
def test_a_single_layer_has_no_weights(choice: Any, index: int, normalize: Any) -> None:
    mix = LayerMix(3, 2, layers=choice, normalize=normalize)
    layers = torch.randn(3, 4, 6)
    alone = LayerMix(1, 2, layers="top", normalize=normalize)
    for module in (mix, alone):
        assert [name for name, _ in module.named_parameters()] == ["gamma"]
        with torch.no_grad():
            module.gamma.copy_(torch.tensor([2.0, 3.0]))
    assert torch.equal(mix(layers), alone(layers[index : index + 1]))
    if normalize is None:
        assert torch.equal(mix(layers)[1], 3 * layers[index])
    assert mix.penalty(1.0) == 0
    stored = [one.coefficients() for one in mix.mixes()]
    torch.testing.assert_close(torch.stack(stored), mix.coefficients(), rtol=0, atol=0)


def test_fixed_weights() -> None:
    mix = LayerMix(3, weights=[-9e10, 1.0, -9e10], trainable=False)
    layers = torch.randn(3, 4, 6)
    mix(layers).sum().backward()
    assert mix.weights is not None
    assert mix.weights.grad is None
    assert mix.gamma.grad is not None
    torch.testing.assert_close(mix(layers)[0], layers[1])


def test_normalization_over_the_batch_takes_one_mean_per_layer_and_ignores_padding() -> None:
    layers = torch.randn(3, 2, 4, 5) * torch.tensor([1.0, 5.0, 0.1]).view(3, 1, 1, 1) + 2
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    mixed = LayerMix(3, normalize="batch")(layers, mask)[0]
    expected = torch.zeros(2, 4, 5)
    for layer in layers:
        inside = layer[mask]
        deviation = torch.sqrt(inside.var(correction=0) + 1e-13)
        expected += (layer - inside.mean()) / deviation / 3
    torch.testing.assert_close(mixed, expected)
    garbage = torch.where(mask[..., None], layers, 1e6)
    torch.testing.assert_close(LayerMix(3, normalize="batch")(garbage, mask)[0][mask], mixed[mask])


def test_normalization_per_token_is_layer_norm_and_does_not_depend_on_the_batch() -> None:
    layers = torch.randn(3, 5, 8) * torch.tensor([1.0, 5.0, 0.1]).view(3, 1, 1) + 2
    layers[:, 4] = 0  # padding stays zero
    mix = LayerMix(3, normalize="token")
    expected = torch.nn.LayerNorm(8, elementwise_affine=False)(layers).mean(0)
    torch.testing.assert_close(mix(layers)[0], expected)
    assert torch.equal(mix(layers)[:, :2], mix(layers[:, :2]))
    assert not mix(layers)[0, 4].any()


def test_penalty_is_on_the_raw_weights_only() -> None:
    mix = LayerMix(3, 2, weights=[1.0, 2.0, 2.0])
    assert mix.penalty(0.5).item() == pytest.approx(0.5 * 2 * 9)


def test_dropout_in_training_only() -> None:
    mix, layers = LayerMix(3, dropout=0.5), torch.ones(3, 100, 10)
    assert (mix(layers) == 0).float().mean() > 0.3
    torch.testing.assert_close(mix.eval()(layers)[0], layers[0])


def test_gradients() -> None:
    mix = LayerMix(3, 2, normalize="batch").double()
    layers = torch.randn(3, 4, 5, dtype=torch.double, requires_grad=True)
    weights = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    gamma = torch.randn(2, dtype=torch.double, requires_grad=True)

    def run(layers: torch.Tensor, weights: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        values = {"weights": weights, "gamma": gamma}
        mixed: torch.Tensor = torch.func.functional_call(mix, values, (layers,))
        return mixed

    assert torch.autograd.gradcheck(run, (layers, weights, gamma))


def test_wrong_numbers_of_layers() -> None:
    with pytest.raises(ElmoxError, match="2 mix weights for 3 layers"):
        LayerMix(3, weights=[0.0, 1.0])
    with pytest.raises(ElmoxError, match="4 layers given, this mix has 3"):
        LayerMix(3)(torch.zeros(4, 2, 2))
    with pytest.raises(ElmoxError, match="num_mixes is 0"):
        LayerMix(3, 0)


@pytest.mark.parametrize("choice", [3, -1, True, 1.0, "all", None])
def test_unknown_choices_of_layers(choice: Any) -> None:
    with pytest.raises(ElmoxError, match=f"layers={choice!r}: expected 'mix', 'top', or an index"):
        LayerMix(3, layers=choice)


@pytest.mark.parametrize("normalize", [True, False, "layer"])
def test_unknown_normalization(normalize: Any) -> None:
    with pytest.raises(ElmoxError, match=f"normalize={normalize!r}: expected None, 'batch' or"):
        LayerMix(3, normalize=normalize)


def test_weights_are_those_of_a_mix() -> None:
    with pytest.raises(ElmoxError, match="layers='top' has no mix weights: leave weights out"):
        LayerMix(3, layers="top", weights=[0.0, 0.0, 1.0])


def test_repr_shows_what_is_mixed() -> None:
    assert repr(LayerMix(3)) == (
        "LayerMix(num_layers=3, num_mixes=1, coefficients=[0.333, 0.333, 0.333])"
    )
    assert repr(LayerMix(2, 2, layers=0, normalize="token", dropout=0.5)) == (
        "LayerMix(num_layers=2, num_mixes=2, layers=0, normalize='token', dropout=0.5, "
        "coefficients=[1, 0], [1, 0])"
    )


def test_every_choice_of_layers_is_a_linear_map() -> None:
    layers = torch.randn(3, 7, 4)
    mixes = {"task": Mix((0.0, 1.0, 2.0), 1.5)}
    weights = 1.5 * torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    expected: dict[Any, torch.Tensor] = {
        "all": layers,
        "average": layers.mean(0, keepdim=True),
        "top": layers[2:],
        "mix": torch.einsum("j,jtd->td", weights, layers)[None],
        "mix:task": torch.einsum("j,jtd->td", weights, layers)[None],
        0: layers[:1],
        -1: layers[2:],
        (2, 0): layers[[2, 0]],
    }
    for choice, selected in expected.items():
        torch.testing.assert_close(choose_layers(choice, 3, mixes).apply(layers), selected)
