"""`elmox.Tok2Vec.v1`, the embedding layer for `spacy train`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from checkpoints import random_options, write_ai2
from spacy.tokens import Doc, Span
from thinc.api import Adam

from elmox import Elmo, ElmoxError
from elmox.integrations.spacy.layer_cache import LayerCache
from elmox.integrations.spacy.tok2vec import build_tok2vec, mix_coefficients

TEXTS = ["Live in the present. I will   buy you a present.", "", "Now  ", "  "]


@pytest.fixture(scope="module")
def docs() -> list[Doc]:
    nlp = spacy.blank("en")
    return [nlp(text) for text in TEXTS]


def words(doc: Doc | Span) -> list[str]:
    return [token.text for token in doc if not token.is_space]


def test_it_is_a_mix_of_the_layers(tiny: Path, docs: list[Doc]) -> None:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    model: Any = build_tok2vec(str(tiny), sentences="doc", mix_learn_rate=2.0)
    model.initialize()
    average = model.predict(docs)
    for doc, vectors in zip(docs, average, strict=True):
        assert vectors.shape == (len(doc), elmo.dim)
        is_word = [not token.is_space for token in doc]
        expected = elmo.encode_tokens([words(doc)])[0]
        np.testing.assert_allclose(vectors[is_word], expected, rtol=0, atol=5e-6)
        assert not vectors[np.logical_not(is_word)].any()
    model.set_param("w", np.array([1.0, 0.0, -1.0], "float32"))
    model.set_param("g", np.array([0.25], "float32"))
    s, gamma = mix_coefficients(model)
    np.testing.assert_allclose(s, np.exp([2, 0, -2]) / np.exp([2, 0, -2]).sum(), rtol=1e-6)
    assert gamma == 1.5
    elmo.set_mix([2.0, 0.0, -2.0], 1.5)
    (expected,) = elmo.encode_tokens([words(docs[0])], layers="mix")
    is_word = [not token.is_space for token in docs[0]]
    np.testing.assert_allclose(model.predict(docs)[0][is_word], expected, rtol=0, atol=5e-6)


def test_sentences_are_read_one_by_one(tiny: Path, docs: list[Doc]) -> None:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    model: Any = build_tok2vec(str(tiny))
    model.initialize()
    first, second = docs[0][:5], docs[0][5:]
    expected = np.concatenate(elmo.encode_tokens([words(first), words(second)]))
    is_word = [not token.is_space for token in docs[0]]
    np.testing.assert_allclose(model.predict(docs)[0][is_word], expected, rtol=0, atol=5e-6)


def test_gradients_are_exact(tiny: Path, docs: list[Doc]) -> None:
    """Compare with finite differences of a random linear function of the output."""
    model: Any = build_tok2vec(str(tiny), mix_learn_rate=3.0)
    model.initialize()
    model.set_param("w", np.array([0.2, -0.1, 0.3], "float32"))
    model.set_param("g", np.array([0.1], "float32"))
    rng = np.random.default_rng(0)
    output, backprop = model.begin_update(docs)
    slopes = [rng.standard_normal(vectors.shape).astype("float32") for vectors in output]

    def loss() -> float:
        pairs = zip(model.predict(docs), slopes, strict=True)
        return float(sum((vectors.astype("float64") * slope).sum() for vectors, slope in pairs))

    assert backprop(slopes) == []
    step = 1e-2
    for name in ("w", "g"):
        start = model.get_param(name).copy()
        for i in range(len(start)):
            change = np.eye(len(start), dtype="float32")[i] * step
            model.set_param(name, start + change)
            above = loss()
            model.set_param(name, start - change)
            below = loss()
            model.set_param(name, start)
            numeric = (above - below) / (2 * step)
            np.testing.assert_allclose(model.get_grad(name)[i], numeric, rtol=5e-3, atol=1e-3)


def test_the_mix_has_a_learning_rate_of_its_own(tiny: Path, docs: list[Doc]) -> None:
    moved = []
    for rate in (1.0, 10.0):
        model: Any = build_tok2vec(str(tiny), mix_learn_rate=rate)
        model.initialize()
        output, backprop = model.begin_update(docs)
        backprop([np.ones_like(vectors) for vectors in output])
        model.finish_update(Adam(0.001, L2=0.0))
        moved.append(abs(mix_coefficients(model)[1] - 1.0))
    assert moved == pytest.approx([0.001, 0.01], rel=1e-2)


def test_dropout_is_for_training(tiny: Path, docs: list[Doc]) -> None:
    model: Any = build_tok2vec(str(tiny), dropout=0.5)
    model.initialize()
    output, backprop = model.begin_update(docs)
    kept = output[0][:5] != 0
    assert 0.2 < kept.mean() < 0.8
    full = model.predict(docs)
    np.testing.assert_allclose(output[0][:5][kept], 2 * full[0][:5][kept], rtol=1e-5)
    backprop([vectors * 0 + 1 for vectors in output])
    scaled = sum(float(vectors.sum()) for vectors in output)
    assert model.get_grad("g")[0] == pytest.approx(10 * scaled, rel=1e-3)


def test_a_width_adds_a_layer_and_round_trips(tiny: Path, docs: list[Doc]) -> None:
    model: Any = build_tok2vec(str(tiny), width=8)
    model.initialize(docs)
    assert model.get_dim("nO") == 8
    output = model.predict(docs)
    assert [vectors.shape for vectors in output] == [(len(doc), 8) for doc in docs]
    stored = model.to_bytes()
    assert len(stored) < 20_000
    loaded = build_tok2vec(str(tiny), width=8).from_bytes(stored)
    for vectors, expected in zip(loaded.predict(docs), output, strict=True):
        np.testing.assert_array_equal(vectors, expected)


def test_another_model_than_that_of_training_is_refused(
    tiny: Path, docs: list[Doc], tmp_path: Path
) -> None:
    trained: Any = build_tok2vec(str(tiny), width=8)
    trained.initialize(docs)
    other = write_ai2(tmp_path, random_options(), np.random.default_rng(1))
    loaded = build_tok2vec(str(other), width=8).from_bytes(trained.to_bytes())
    with pytest.raises(ElmoxError, match="saved with another biLM"):
        loaded.predict(docs)


def test_every_sentence_is_encoded_once(
    tiny: Path, docs: list[Doc], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = build_tok2vec(str(tiny))
    model.initialize()
    expected = model.predict(docs)
    monkeypatch.setattr(Elmo, "encode_tokens", None)
    for vectors, first in zip(model.predict(docs), expected, strict=True):
        np.testing.assert_array_equal(vectors, first)


@pytest.mark.parametrize("options", [{"width": 0}, {"sentences": "paragraphs"}])
def test_bad_options_are_refused(tiny: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ElmoxError, match=next(iter(options))):
        build_tok2vec(str(tiny), **options)


def test_the_cache_holds_what_was_used_last() -> None:
    cache = LayerCache(3 * 40)
    for name in "abc":
        cache.put(name, np.full((1, 10), ord(name), "float32"))
    assert cache.get("a") is not None
    cache.put("d", np.zeros((1, 10), "float32"))
    assert [cache.get(name) is None for name in "abcd"] == [False, True, False, False]
    assert cache.num_bytes == 120
    cache.put("long", np.zeros((1, 100), "float32"))
    assert cache.num_bytes == 0
