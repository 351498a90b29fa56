"""ELMo inside another model: learned mixes, biLM frozen or trainable, one process or two."""

import copy
import pickle
import warnings
from pathlib import Path

import ddp_job
import numpy as np
import pytest
import torch
from forked import run_ranks

from elmox import Elmo, ElmoEmbedding
from elmox.text.batches import index_sentences

SENTENCES = [["Live", "in", "the", "present"], ["I", "will"], []]


def test_mixes_are_padded_in_the_order_given(tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, num_mixes=2)
    out = embed(SENTENCES)
    assert out.mixes.shape == (2, 3, 4, embed.dim)
    assert out.mask.tolist() == [[True] * 4, [True, True, False, False], [False] * 4]
    assert (out.mixes[:, ~out.mask] == 0).all()
    expected = Elmo.from_pretrained(tiny).encode_tokens(SENTENCES)
    np.testing.assert_allclose(out.mixes[1, 1, :2].detach(), expected[1], atol=2e-6)


@pytest.mark.parametrize("trainable", [False, True])
def test_no_sentences_are_a_batch_too(trainable: bool, tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, num_mixes=2, trainable=trainable, device="cpu")
    out = embed([])
    assert out.mixes.shape == (2, 0, 0, embed.dim)
    assert out.mask.shape == (0, 0)


def test_boundaries_are_kept_on_request(tiny: Path) -> None:
    cut, kept = (
        ElmoEmbedding.from_pretrained(tiny, keep_boundaries=keep)(SENTENCES)
        for keep in (False, True)
    )
    assert kept.mask.sum(1).tolist() == [6, 4, 2]
    torch.testing.assert_close(kept.mixes[0, 1, 1:3], cut.mixes[0, 1, :2])


def test_only_the_mixes_learn_by_default(tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, num_mixes=2, dropout=0.1)
    (embed(SENTENCES).mixes.square().sum() + embed.mix_penalty(0.1)).backward()
    learned = {name for name, p in embed.named_parameters() if p.grad is not None}
    assert learned == {"scalar_mix.weights", "scalar_mix.gamma"}
    assert embed.mix_penalty(0.1) == 0  # all weights are zero to begin with


def test_trainable_reaches_every_weight(tiny: Path) -> None:
    frozen = ElmoEmbedding.from_pretrained(tiny)
    embed = ElmoEmbedding.from_pretrained(tiny, trainable=True)
    out = embed(SENTENCES)
    torch.testing.assert_close(out.mixes, frozen(SENTENCES).mixes, rtol=0, atol=2e-6)
    out.mixes.square().sum().backward()
    without = [n for n, p in embed.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_vectors_follow_the_weights_after_a_step_of_training(tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, trainable=True)
    with torch.no_grad():
        before = embed(SENTENCES).mixes  # fills the word cache
    optimizer = torch.optim.SGD(embed.parameters(), lr=0.1)
    embed(SENTENCES).mixes.square().sum().backward()
    optimizer.step()
    trained = embed(SENTENCES).mixes.detach()
    with torch.no_grad():
        cached = embed(SENTENCES).mixes
    assert not torch.allclose(before, trained, atol=1e-3)
    torch.testing.assert_close(cached, trained, rtol=0, atol=2e-6)


def test_gradients_of_the_whole_bilm(tiny: Path) -> None:
    """Finite differences in float64, through encoder, clipped LSTMs, residuals and mix."""
    elmo = Elmo.from_pretrained(tiny)
    bilm = elmo.reader.bilm.double().requires_grad_(True)
    indexer = elmo.reader.indexer
    batch = index_sentences([["ab", "c"], ["d"]], indexer.begin, indexer.end)
    table = indexer(batch.words)
    index = torch.from_numpy(batch.index)
    names = ["lstm.1.recurrent_weight", "lstm.0.projection", "token_encoder.highways.0.carry.bias",
             "token_encoder.char_cnn.convolutions.2.bias", "lstm.0.bias"]  # fmt: skip
    values = dict(bilm.named_parameters())

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        replaced = dict(zip(names, tensors, strict=True))
        encoder = {
            name.removeprefix("token_encoder."): tensor
            for name, tensor in replaced.items()
            if name.startswith("token_encoder.")
        }
        vectors = torch.func.functional_call(bilm.token_encoder, encoder, (table,))
        state = elmo.start_state(2)
        layers, after = torch.func.functional_call(
            bilm, replaced, (vectors[index], batch.lengths, state)
        )
        return torch.cat([layers.flatten(), after.cell.flatten()])

    inputs = tuple(values[name].detach().clone().requires_grad_(True) for name in names)
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_copies_and_pickles(tiny: Path) -> None:
    embed = ElmoEmbedding.from_pretrained(tiny, num_mixes=2).eval()
    expected = embed(SENTENCES).mixes
    for again in (copy.deepcopy(embed), pickle.loads(pickle.dumps(embed))):
        torch.testing.assert_close(again(SENTENCES).mixes, expected, rtol=0, atol=1e-6)
        with torch.no_grad():
            dict(again.named_parameters())["bilm.lstm.0.bias"].add_(1.0)  # its own weights
    torch.testing.assert_close(embed(SENTENCES).mixes, expected, rtol=0, atol=0)


def test_one_layer_and_fixed_weights(tiny: Path) -> None:
    top = ElmoEmbedding.from_pretrained(tiny, layers="top")(SENTENCES)
    expected = Elmo.from_pretrained(tiny).encode_tokens(SENTENCES, layers="top")
    np.testing.assert_allclose(top.mixes[0, 0].detach(), expected[0], atol=2e-6)
    fixed = ElmoEmbedding.from_pretrained(tiny, mix_weights=[0.0, 50.0, 0.0], fixed_mix=True)
    middle = Elmo.from_pretrained(tiny).encode_tokens(SENTENCES, layers=1)
    np.testing.assert_allclose(fixed(SENTENCES).mixes[0, 0].detach(), middle[0], atol=2e-6)


@pytest.mark.parametrize("mode", ["frozen", "trainable"])
def test_two_processes_learn_the_same_mixes(tiny: Path, tmp_path: Path, mode: str) -> None:
    run_ranks(2, ddp_job.learn, tiny, tmp_path, mode == "trainable")
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    start = ElmoEmbedding.from_pretrained(tiny, num_mixes=2).state_dict()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0)
    changed = {
        n for n, v in first.items() if n.startswith("embed.") and not torch.equal(v, start[n[6:]])
    }
    assert "embed.scalar_mix.weights" in changed
    assert any(name.startswith("embed.bilm.") for name in changed) == (mode == "trainable")


def test_a_flat_list_of_words_warns(tiny: Path) -> None:
    """As in `encode_tokens`; the warning names the line of the call."""
    embed = ElmoEmbedding.from_pretrained(tiny)
    with pytest.warns(UserWarning, match="is read as 2 sentences of one word each") as caught:
        assert embed(["I", "will"]).mixes.shape[:3] == (1, 2, 1)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed([["I", "will"]])
        embed("will")
