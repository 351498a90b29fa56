"""The part-of-speech probe on tiny treebanks with known results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import random_options, write_many_langs, write_word_model
from treebank_data import TAGS, conllu, write_treebank

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence, read_conllu
from elmox.model.checkpoint import Checkpoint
from elmox.probes.linear import ProbeOptions
from elmox.probes.pos import probe as pos
from elmox.probes.pos.probe import (
    PARTS,
    PosOptions,
    layer_vectors,
    mean_and_deviation,
    probe_pos,
    random_control,
)

Treebank = dict[str, list[TreebankSentence]]
OPTIONS = PosOptions(
    num_seeds=2, samples=200, probe=ProbeOptions(min_steps=150, learning_rate=5e-2)
)


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny, device="cpu")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Treebank:
    """A treebank in which a word always has the same tag."""
    paths = write_treebank(tmp_path_factory.mktemp("treebank"))
    return {part: read_conllu(path) for part, path in paths.items()}


def make_treebank(folder: Path, texts: Sequence[str]) -> Treebank:
    """Write the texts of the parts and read them."""
    for part, text in zip(PARTS, texts, strict=True):
        (folder / part).write_text(text, "utf-8")
    return {part: read_conllu(folder / part) for part in PARTS}


def test_a_tag_that_the_word_decides_is_in_layer_0(elmo: Elmo, treebank: Treebank) -> None:
    scores = probe_pos(elmo, treebank, OPTIONS)
    assert [score.name for score in scores.layers] == [
        "layer 0", "layer 1", "layer 2", "random layer 0", "random layer 1", "random layer 2",
    ]  # fmt: skip
    assert [score.weights for score in scores.layers] == ["trained"] * 3 + ["random"] * 3
    for score in (scores.layers[0], scores.layers[3]):
        assert score.dev == score.test == (100.0, 100.0)
        assert (score.interval.estimate, score.interval.low) == (100.0, 100.0)
    assert scores.num_tags == 3
    assert [scores.parts[part].num_sentences for part in PARTS] == [40, 40, 40]
    assert scores.parts["test"].num_words == sum(map(len, treebank["test"]))


def test_differences_are_those_of_the_scores(elmo: Elmo, treebank: Treebank) -> None:
    hard = PosOptions(num_seeds=3, seed=5, samples=300, probe=ProbeOptions(min_steps=3))
    scores = probe_pos(elmo, treebank, hard)
    means = {score.name: mean_and_deviation(score.test)[0] for score in scores.layers}
    assert len(set(means.values())) > 2
    for score in scores.layers:
        assert score.interval.estimate == pytest.approx(means[score.name])
        assert score.interval.low <= means[score.name] <= score.interval.high
    assert [(difference.system, difference.other) for difference in scores.differences] == [
        ("layer 1", "layer 0"),
        ("layer 2", "layer 0"),
        ("layer 1", "layer 2"),
        ("layer 0", "random layer 0"),
        ("layer 1", "random layer 1"),
        ("layer 2", "random layer 2"),
    ]
    for difference in scores.differences:
        expected = means[difference.system] - means[difference.other]
        assert difference.points.estimate == pytest.approx(expected)
    assert probe_pos(elmo, treebank, hard) == scores


def test_a_tag_that_only_context_decides_is_not_in_layer_0(elmo: Elmo, tmp_path: Path) -> None:
    """`play` is a noun after `the` and a verb after `to`: alike in layer 0, so half is right."""
    pair = conllu(["the", "play"], ["DT", "NN"]) + conllu(["to", "play"], ["TO", "VB"])
    bank = make_treebank(tmp_path, [pair * 30, pair * 5, pair * 5])
    scores = probe_pos(elmo, bank, OPTIONS)
    for score in (scores.layers[0], scores.layers[3]):
        assert score.test == (75.0, 75.0)
    assert scores.layers[1].test == (100.0, 100.0)  # it separates these two contexts


def test_unseen_tags_are_wrong_and_reported(elmo: Elmo, tmp_path: Path) -> None:
    text = conllu(["the", "cat"], ["DT", "NN"]) * 20
    odd = conllu(["the", "cat"], ["DT", "ODD"]) * 3 + conllu(["the", "cat"], ["NEW", "NN"])
    scores = probe_pos(elmo, make_treebank(tmp_path, [text, text + odd, odd]), OPTIONS)
    assert scores.parts["train"].unseen == {}
    assert scores.parts["dev"].unseen == {"ODD": 3, "NEW": 1}
    assert scores.parts["test"].unseen == {"ODD": 3, "NEW": 1}
    assert scores.num_tags == 2
    assert scores.layers[0].test == (50.0, 50.0)


def test_either_kind_of_tag(elmo: Elmo, tmp_path: Path) -> None:
    tags = {**TAGS, "ran": "VBN"}  # universally V like the other verb
    text = "".join(conllu([word, "cat"], [tag, "NN"]) for word, tag in tags.items()) * 10
    bank = make_treebank(tmp_path, [text] * 3)
    quick = replace(OPTIONS, samples=10, probe=ProbeOptions(min_steps=5))
    assert probe_pos(elmo, bank, quick).num_tags == 4
    assert probe_pos(elmo, bank, replace(quick, tags="upos")).num_tags == 3
    untagged = [replace(sentence, xpos=("_",) * len(sentence)) for sentence in bank["dev"]]
    with pytest.raises(ElmoxError, match=r"dev has no xpos tags: .* choose tags='upos'"):
        probe_pos(elmo, {**bank, "dev": untagged}, quick)


def test_vectors_are_those_of_the_model_for_any_size_of_batches(
    elmo: Elmo, treebank: Treebank, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [sentence.words for sentence in treebank["dev"]]
    expected = np.concatenate(elmo.encode_tokens(sentences, layers="all"), axis=1)
    monkeypatch.setattr(pos, "_TOKENS_AT_ONCE", 7)
    vectors = layer_vectors(elmo, sentences)
    assert vectors.dtype == torch.float16
    np.testing.assert_allclose(vectors.float().numpy(), expected, rtol=1e-3, atol=1e-6)


def test_vectors_beyond_float16_are_refused(elmo: Elmo, treebank: Treebank) -> None:
    checkpoint: Checkpoint = elmo.checkpoint()
    name = next(name for name in checkpoint.tensors if name.endswith("projection.bias"))
    tensors = {**checkpoint.tensors, name: checkpoint.tensors[name] + 1e6}
    huge = Elmo(replace(checkpoint, tensors=tensors))
    with pytest.raises(ElmoxError, match="beyond the range of float16"):
        layer_vectors(huge, [["the", "cat"]])


def test_the_control_reads_the_same_with_other_weights(elmo: Elmo, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    others = [
        write_word_model(tmp_path / "words", random_options(), rng),
        write_many_langs(tmp_path / "many", "word_char", rng),
    ]
    for model in (elmo, *(Elmo.from_pretrained(path, device="cpu") for path in others)):
        control = random_control(model)
        assert control.config == model.config
        assert control.description == "random weights"
        words = [["The", "cat", "sat"]]
        one, other = (each.encode_tokens(words, layers="all")[0] for each in (model, control))
        assert one.shape == other.shape
        assert np.abs(one - other).mean() > 1e-3
        again = random_control(model).encode_tokens(words, layers="all")[0]
        np.testing.assert_array_equal(other, again)


def test_bad_options() -> None:
    bad: list[dict[str, Any]] = [{"tags": "deprel"}, {"num_seeds": 0}, {"seed": -1}]
    for values in bad:
        with pytest.raises(ElmoxError, match="expected xpos or upos, at least 1"):
            PosOptions(**values)


def test_the_deviation_over_seeds() -> None:
    assert mean_and_deviation([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_deviation([5.0]) == (5.0, 0.0)
