"""ELMo inside a SentenceTransformer: the vectors of `Elmo`, saving, loading, and its Trainer."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_parts import random_options
from checkpoints import write_many_langs, write_word_model
from hypothesis import given, settings
from hypothesis import strategies as st

import elmox
from elmox import ElmoEmbedding, ElmoxError

pytest.importorskip("sentence_transformers")

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from sentence_transformers.sentence_transformer.modules import Dense, Pooling

from elmox.integrations.sentence_transformers import Elmo, load, read_words, spell_words

SENTENCES = [
    "I will buy you a present.",
    "",
    "Don't look back: naïve 天😀",
    "a" * 60 + " <S> is a long word",
]
EXACT = 1e-6


def encoder(model: Path | None, pooling: str = "mean", **options: Any) -> SentenceTransformer:
    elmo = Elmo(model, **options)
    modules = [elmo, Pooling(elmo.get_embedding_dimension(), pooling)]
    return SentenceTransformer(modules=modules, device="cpu")


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_vectors_are_those_of_encode(tiny: Path, pooling: Any) -> None:
    expected = elmox.Elmo.from_pretrained(tiny).encode(SENTENCES, pooling=pooling)
    full = [0, 2, 3]  # sentence-transformers has no zeros for the maximum of nothing
    vectors = encoder(tiny, pooling).encode(SENTENCES, batch_size=3)
    np.testing.assert_allclose(vectors[full], expected[full], atol=EXACT)
    if pooling == "mean":
        np.testing.assert_array_equal(vectors[1], 0)


def test_token_vectors_are_those_of_encode_tokens(tiny: Path) -> None:
    expected = elmox.Elmo.from_pretrained(tiny).encode_tokens(SENTENCES)
    model = encoder(tiny)
    actual = model.encode(SENTENCES, output_value="token_embeddings", convert_to_numpy=False)
    for vectors, those in zip(actual, expected, strict=True):
        np.testing.assert_allclose(vectors[: len(those)], those, atol=EXACT)


def test_every_kind_of_model_is_read(tmp_path: Path) -> None:
    """Also those that know words or code points instead of bytes."""
    rng = np.random.default_rng(0)
    models = [
        write_word_model(tmp_path / "words", random_options(), rng),
        *(write_many_langs(tmp_path / kind, kind, rng) for kind in ("char", "word_char")),
    ]
    for model in models:
        expected = elmox.Elmo.from_pretrained(model).encode(SENTENCES)
        np.testing.assert_allclose(encoder(model).encode(SENTENCES), expected, atol=EXACT)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.text(max_size=8), max_size=4), min_size=1, max_size=4))
def test_words_survive_as_numbers(sentences: list[list[str]]) -> None:
    assert read_words(*spell_words(sentences)) == sentences


def test_words_of_any_length_and_lone_surrogates() -> None:
    ids, mask = spell_words([["天" * 5000, "\ud800"], []])
    assert ids.shape == (2, 2, 3000)
    assert read_words(ids, mask) == [["天" * 1000, "\ud800"], []]


def test_options_of_the_mix_reach_the_embedding(tiny: Path) -> None:
    model = encoder(tiny, layers="top", max_seq_length=3)
    expected = elmox.Elmo.from_pretrained(tiny).encode([["I", "will", "buy"]], layers="top")
    np.testing.assert_allclose(model.encode(["I will buy you a present."]), expected, atol=EXACT)
    assert model.max_seq_length == 3


def test_a_prompt_can_be_left_out_of_the_mean(tiny: Path) -> None:
    elmo = Elmo(tiny)
    pooling = Pooling(elmo.get_embedding_dimension(), "mean", include_prompt=False)
    model = SentenceTransformer(modules=[elmo, pooling], device="cpu")
    (vectors,) = elmox.Elmo.from_pretrained(tiny).encode_tokens([["query", ":", "a", "present"]])
    actual = model.encode(["a present"], prompt="query: ")
    np.testing.assert_allclose(actual[0], vectors[2:].mean(0), atol=EXACT)


@pytest.mark.parametrize("through_pickle", [False, True])
def test_saving_and_loading(tiny: Path, tmp_path: Path, through_pickle: bool) -> None:
    model = encoder(tiny, dropout=0.25, max_seq_length=5)
    model.similarity_fn_name = "dot"
    model.prompts["query"] = "query: "
    with torch.no_grad():
        model[0].embedding.scalar_mix.weights[0, 0] = 2.0
    expected = model.encode(SENTENCES)
    if through_pickle:
        loaded = pickle.loads(pickle.dumps(model))
    else:
        model.save_pretrained(str(tmp_path / "encoder"))
        model.save_pretrained(str(tmp_path / "encoder"))  # again, over the first
        loaded = load(tmp_path / "encoder", device="cpu")
        assert elmox.load_sentence_transformer is load
        assert not list(tmp_path.rglob("*.bin")), "no pickle"
    np.testing.assert_allclose(loaded.encode(SENTENCES), expected, atol=EXACT)
    assert loaded.max_seq_length == 5
    assert loaded.similarity_fn_name == "dot"
    assert loaded.prompts["query"] == "query: "
    assert loaded[0].embedding.scalar_mix.dropout == 0.25


def test_a_saved_model_contains_its_bilm_unless_it_is_the_bundled_one(
    tiny: Path, tmp_path: Path
) -> None:
    model = encoder(tiny)
    model.save_pretrained(str(tmp_path / "moved"))
    assert (tmp_path / "moved/0_Elmo/embedding/elmo/model.safetensors").is_file()
    bundled = encoder(None)
    bundled.save_pretrained(str(tmp_path / "bundled"))
    assert sum(path.stat().st_size for path in (tmp_path / "bundled").rglob("*")) < 100_000
    loaded = load(tmp_path / "bundled", device="cpu")
    np.testing.assert_allclose(loaded.encode(SENTENCES), bundled.encode(SENTENCES), atol=EXACT)


def test_sentence_transformers_loads_it_if_it_trusts_the_class(tiny: Path, tmp_path: Path) -> None:
    model = encoder(tiny)
    model.save_pretrained(str(tmp_path / "encoder"))
    loaded = SentenceTransformer(str(tmp_path / "encoder"), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(loaded.encode(SENTENCES), model.encode(SENTENCES), atol=EXACT)


def train(model: SentenceTransformer, folder: Path, **options: Any) -> None:
    pairs = Dataset.from_dict(
        {
            "first": ["a good film", "a bad film", "the cat sat", "a cat"] * 2,
            "second": ["a fine film", "a good film", "the cat sat", "the film"] * 2,
            "score": [0.9, 0.1, 1.0, 0.0] * 2,
        }
    )
    arguments = SentenceTransformerTrainingArguments(
        str(folder), max_steps=4, per_device_train_batch_size=4, learning_rate=0.05,
        use_cpu=True, report_to="none", disable_tqdm=True, save_strategy="no", **options,
    )  # fmt: skip
    loss = CosineSimilarityLoss(model)
    SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=loss).train()


@pytest.mark.parametrize("trainable", [False, True])
def test_its_trainer_trains_the_mix_and_the_head_or_everything(
    tiny: Path, tmp_path: Path, trainable: bool
) -> None:
    elmo = Elmo(tiny, dropout=0.1, trainable=trainable)
    dim = elmo.get_embedding_dimension()
    modules = [elmo, Pooling(dim, "mean"), Dense(dim, 8)]
    model = SentenceTransformer(modules=modules, device="cpu")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(model, tmp_path / "run")
    changed = {n for n, tensor in model.state_dict().items() if not torch.equal(tensor, before[n])}
    parts = {name.split(".")[2] if "embedding" in name else "dense" for name in changed}
    assert parts == {"scalar_mix", "dense"} | ({"bilm"} if trainable else set())
    model.save_pretrained(str(tmp_path / "trained"))
    loaded = load(tmp_path / "trained", device="cpu")
    np.testing.assert_allclose(loaded.encode(SENTENCES), model.encode(SENTENCES), atol=EXACT)
    assert loaded[0].embedding.trainable == trainable


def test_the_trainer_continues_from_its_checkpoint(tiny: Path, tmp_path: Path) -> None:
    model = encoder(tiny)
    pairs = Dataset.from_dict(
        {"a": ["a film", "a cat"], "b": ["a cat", "a film"], "score": [0.0, 1]}
    )
    arguments = SentenceTransformerTrainingArguments(
        str(tmp_path), max_steps=2, learning_rate=0.05, use_cpu=True, report_to="none",
        disable_tqdm=True, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1,
        load_best_model_at_end=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=pairs, eval_dataset=pairs, loss=CosineSimilarityLoss(model)
    )
    trainer.train()
    best = Path(str(trainer.state.best_model_checkpoint))
    np.testing.assert_allclose(
        load(best, device="cpu").encode(SENTENCES), model.encode(SENTENCES), atol=EXACT
    )


def rewritten(folder: Path, entries: Any) -> Path:
    (folder / "modules.json").write_text(json.dumps(entries))
    return folder


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"type": "os.system", "path": "x"}], "neither that of elmox"),
        ([{"type": "elmox.client.Client", "path": "x"}], "neither that of elmox"),
        ([{"type": "sentence_transformers.No.Such", "path": "x"}], "upgrade"),
        ([{"type": "sentence_transformers.util.cos_sim", "path": "x"}], "not a module"),
        ([{"type": "sentence_transformers.util.cos_sim", "path": "../x"}], "a path inside"),
        ([{"type": 3}], "expected a list of modules"),
        ({}, "expected a list of modules"),
    ],
)
def test_no_other_code_is_loaded(tmp_path: Path, entries: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        load(rewritten(tmp_path, entries))


def test_bad_input_is_named(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=r"has no modules\.json"):
        load(tmp_path)
    with pytest.raises(ElmoxError, match="sentence 1 is 3"):
        Elmo(tiny).preprocess(["a", 3])  # type: ignore[list-item]
    ElmoEmbedding.from_pretrained(tiny, num_mixes=2).save_pretrained(tmp_path / "two")
    with pytest.raises(ElmoxError, match="has 2 mixes"):
        Elmo(tmp_path / "two")


def test_without_the_package_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.startswith("sentence_transformers")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "elmox.integrations.sentence_transformers")
    expected = "sentence-transformers is not installed: pip install 'elmox\\[sentence-transformers"
    with pytest.raises(ElmoxError, match=expected):
        __import__("elmox.integrations.sentence_transformers")
    with pytest.raises(ElmoxError, match=expected):
        elmox.load_sentence_transformer(tmp_path)
