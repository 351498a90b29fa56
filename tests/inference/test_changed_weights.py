"""Vectors follow the weights, whatever changes them: nothing that is kept outlives its weights."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from elmox import Elmo, ElmoEmbedding
from elmox.integrations.allennlp_module import Elmo as AllennlpElmo
from elmox.kernels.derived import Derived, WeightsWatch, weights_fixed
from elmox.text.words import WordTable

SENTENCES = [["Live", "in", "the", "present"], ["I", "will"], ["present"]]


def vectors(embed: ElmoEmbedding) -> Tensor:
    with torch.no_grad():
        mixes: Tensor = embed(SENTENCES).mixes
    return mixes


def fresh_vectors(embed: ElmoEmbedding) -> Tensor:
    """The vectors of a copy, which has kept nothing."""
    return vectors(copy.deepcopy(embed))


OPTIMIZERS: dict[str, Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.05, fused=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, fused=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, fused=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_optimizers(name: str, tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, trainable=True)
    before = vectors(embed)
    optimizer = OPTIMIZERS[name](embed.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        embed(SENTENCES).mixes.square().sum().backward()
        optimizer.step()
    after = vectors(embed)
    assert not torch.allclose(after, before, atol=1e-3)
    torch.testing.assert_close(after, fresh_vectors(embed), rtol=0, atol=0)


def through_data(bilm: nn.Module) -> None:
    for parameter in bilm.parameters():
        parameter.data.copy_(parameter.data * 0.5)


def through_numpy(bilm: nn.Module) -> None:
    for parameter in bilm.parameters():
        parameter.detach().numpy()[...] *= 0.5


def by_loading(bilm: nn.Module) -> None:
    bilm.load_state_dict({name: 0.5 * value for name, value in bilm.state_dict().items()})


def by_vector(bilm: nn.Module) -> None:
    vector = nn.utils.parameters_to_vector(bilm.parameters()).detach()
    nn.utils.vector_to_parameters(vector * 0.5, bilm.parameters())


def by_new_tensors(bilm: nn.Module) -> None:
    for parameter in bilm.parameters():
        parameter.data = parameter.data * 0.5


def one_number(bilm: nn.Module) -> None:
    biases = dict(bilm.named_parameters())
    biases["lstm.1.bias"].data[0, 3] += 0.5
    biases["token_encoder.highways.0.carry.bias"].data[1] += 0.5


WRITERS = [through_data, through_numpy, by_loading, by_vector, by_new_tensors, one_number]


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("write", WRITERS)
def test_writes(write: Callable[[nn.Module], None], trainable: bool, tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, trainable=trainable)
    before = vectors(embed)
    write(embed.bilm)
    after = vectors(embed)
    assert not torch.allclose(after, before, atol=1e-4)
    torch.testing.assert_close(after, fresh_vectors(embed), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
def test_a_frozen_moving_average(dtype: str, tiny: Path) -> None:
    """The usual copy for evaluation: without gradients, written through `.data`."""
    average, other = Elmo.from_pretrained(tiny, dtype=dtype), Elmo.from_pretrained(tiny)
    before = average.encode_tokens(SENTENCES)
    for mean, parameter in zip(
        average.reader.bilm.parameters(), other.reader.bilm.parameters(), strict=True
    ):
        mean.data.mul_(0.9).add_(0.1 * (2 * parameter.data).to(mean.dtype))
    after = average.encode_tokens(SENTENCES)
    expected = copy.deepcopy(average).encode_tokens(SENTENCES)
    assert np.abs(after[0] - before[0]).max() > 1e-3
    for ours, theirs in zip(after, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pruned_weights(tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny)
    before = vectors(embed)
    layer = embed.bilm.get_submodule("lstm.0")
    prune.l1_unstructured(layer, "input_weight", 0.5)  # type: ignore[no-untyped-call]
    after = vectors(embed)
    assert not torch.allclose(after, before, atol=1e-4)
    torch.testing.assert_close(after, fresh_vectors(embed), rtol=0, atol=0)


def test_words_that_allennlp_keeps(tiny: Path) -> None:
    kept = AllennlpElmo(None, tiny, 1, vocab_to_cache=["<pad>", "a", "b"], stateful=False).eval()
    words = torch.tensor([[1, 2]])
    before = kept(None, words)["elmo_representations"][0]
    through_data(kept.bilm)
    after = kept(None, words)["elmo_representations"][0]
    fresh = copy.deepcopy(kept)(None, words)["elmo_representations"][0]
    assert not torch.allclose(after, before, atol=1e-3)
    torch.testing.assert_close(after, fresh, rtol=0, atol=0)


@pytest.mark.parametrize("learned", [False, True])
def test_large_weights(learned: bool) -> None:
    """Frozen ones are sampled, learned ones compared whole."""
    weight = torch.zeros(300, 300, requires_grad=learned)
    watch = WeightsWatch()
    first = watch.version([weight])
    assert watch.version([weight]) == first
    weight.data.view(-1)[1] = 1.0
    assert (watch.version([weight]) != first) == learned
    weight.data.add_(1e-3)
    second = watch.version([weight])
    assert second != first
    with torch.no_grad():
        weight[7, 7] = 1.0  # counted by torch
    assert watch.version([weight]) != second


def test_nan_is_equal_to_itself_and_precisions_may_mix() -> None:
    weights = [torch.full((4,), float("nan")), torch.ones(3, 2).T, torch.ones(5).bfloat16()]
    watch = WeightsWatch()
    first = watch.version(weights)
    assert watch.version(weights) == first
    weights[1].data[0, 0] = 2.0
    assert watch.version(weights) != first


def test_a_value_is_made_again_for_other_options() -> None:
    derived, weight = Derived[int](), torch.ones(2)
    made = iter(range(9))
    assert [derived.get([weight], lambda: next(made), key) for key in "aabba"] == [0, 0, 1, 1, 2]


def test_weights_declared_fixed_are_compared_once() -> None:
    weight, watch = torch.ones(2), WeightsWatch()
    with weights_fixed():
        first = watch.version([weight])
        weight.data.add_(1)
        with weights_fixed():
            assert watch.version([weight]) == first
    assert watch.version([weight]) != first


def test_clear_cache(tiny: Path) -> None:
    """`clear_cache` is for changes that torch does not count: one element of a frozen weight."""
    elmo = Elmo.from_pretrained(tiny)
    expected = elmo.encode(SENTENCES)
    calls: list[WordTable] = []
    elmo.reader.bilm.token_encoder.register_forward_pre_hook(
        lambda _module, inputs: calls.append(inputs[0])
    )
    elmo.encode(SENTENCES)
    assert not calls
    elmo.clear_cache()
    np.testing.assert_array_equal(elmo.encode(SENTENCES), expected)
    assert len(calls) == 1
