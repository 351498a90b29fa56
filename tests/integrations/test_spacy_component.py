"""The component `elmox` of spaCy pipelines."""

import importlib
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from checkpoints import random_options, write_ai2
from spacy.tokens import Doc

from elmox import Elmo, ElmoxError
from elmox.integrations.spacy.bilm import Bilm
from elmox.integrations.spacy.component import ElmoxComponent
from elmox.integrations.spacy.hooks import set_hooks

TEXT = "Live in the present.  I will buy you a present!"


def pipeline(model: Path, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmox", config={"model": str(model), **config})
    return nlp


def component(nlp: Any) -> Any:
    return nlp.get_pipe("elmox")


@pytest.fixture(scope="module", autouse=True)
def _loaded(tiny: Path) -> Iterator[None]:
    """Keep the model alive, so that all pipelines share it."""
    bilm = Bilm(str(tiny))
    assert bilm.elmo.num_layers == 3
    yield
    del bilm


def same(vectors: Any, expected: Any) -> None:
    """Compare up to the rounding of batches of other shapes."""
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=2e-6)


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    elmo = Elmo.from_pretrained(tiny, device="cpu")
    elmo.set_mix([1.0, 0.0, 2.0], 0.5)
    return elmo


@pytest.mark.parametrize("layers", ["average", "top", 0, 1])
def test_vectors_are_those_of_encode_tokens(tiny: Path, elmo: Elmo, layers: str | int) -> None:
    """Bit for bit, if the same sentences are encoded in one call and no word was known before."""
    nlp = pipeline(tiny, layers=layers)
    for model in (elmo, component(nlp).bilm.elmo):
        model.clear_cache()
    texts = ["I will buy you a present.", "Don't", "Live in the present!"]
    docs = list(nlp.pipe(texts))
    tokens = [[token.text for token in doc] for doc in docs]
    assert tokens[1] == ["Do", "n't"]
    for doc, expected in zip(docs, elmo.encode_tokens(tokens, layers=layers), strict=True):
        np.testing.assert_array_equal(doc.tensor, expected)
        for token, vector in zip(doc, expected, strict=True):
            np.testing.assert_array_equal(token.vector, vector)


def test_a_stored_mix_is_a_choice_of_layers(elmo: Elmo, tmp_path: Path) -> None:
    elmo.save_pretrained(tmp_path / "model")
    doc = pipeline(tmp_path / "model", layers="mix")("Live in the present")
    (expected,) = elmo.encode_tokens([["Live", "in", "the", "present"]], layers="mix")
    same(doc.tensor, expected)


def test_sentences_are_read_one_by_one_without_white_space(tiny: Path, elmo: Elmo) -> None:
    doc = pipeline(tiny)(TEXT)
    assert doc[5].is_space
    sentences = [[token.text for token in part] for part in (doc[:5], doc[6:])]
    first, second = elmo.encode_tokens(sentences)
    same(doc.tensor[:5], first)
    same(doc.tensor[6:], second)
    assert not doc.tensor[5].any()
    assert [token.has_vector for token in doc] == [i != 5 for i in range(len(doc))]
    words = np.concatenate([first, second])
    np.testing.assert_allclose(doc.vector, words.mean(0), rtol=1e-6)
    np.testing.assert_allclose(doc[4:7].vector, words[4:6].mean(0), rtol=1e-6)
    assert doc.has_vector
    assert not doc[5:6].has_vector
    assert doc.vector_norm == pytest.approx(np.linalg.norm(words.mean(0)), rel=1e-5)


def test_the_choice_of_sentences(tiny: Path, elmo: Elmo) -> None:
    whole = [token.text for token in spacy.blank("en")(TEXT) if not token.is_space]
    doc = pipeline(tiny, sentences="doc")(TEXT)
    same(doc.tensor[[i != 5 for i in range(len(doc))]], *elmo.encode_tokens([whole]))
    nlp = pipeline(tiny)
    words: list[str] = ["a", "b", "c", "."]
    starts: list[bool | int | None] = [True, False, True, False]
    given = nlp(Doc(nlp.vocab, words, sent_starts=starts))
    same(given.tensor, np.concatenate(elmo.encode_tokens([["a", "b"], ["c", "."]])))
    by_rule = pipeline(tiny, sentences="rules")(Doc(nlp.vocab, words, sent_starts=starts))
    same(by_rule.tensor, *elmo.encode_tokens([words]))


def test_the_same_spelling_is_not_the_same_vector(tiny: Path) -> None:
    nlp = pipeline(tiny)
    doc, other = nlp("I will buy you a present. Live in the present!"), nlp("a present")
    first, second = doc[5], doc[10]
    assert (first.text, second.text) == ("present", "present")
    expected = Elmo.similarity(first.vector, second.vector)
    assert first.similarity(second) == pytest.approx(expected.item(), abs=1e-6)
    assert first.similarity(second) < 0.9999
    assert first.similarity(first) == pytest.approx(1.0)
    assert doc[5:6].similarity(doc[10:11]) == pytest.approx(first.similarity(second))
    assert doc[4:6].similarity(other) < 0.9999
    assert nlp("a present").similarity(nlp("a present")) == pytest.approx(1.0)
    assert nlp("").similarity(other) == 0.0


def test_vectors_win_over_static_ones(tiny: Path) -> None:
    nlp = pipeline(tiny)
    nlp.vocab.set_vector("present", np.ones(5, "float32"))
    doc = nlp("present")
    np.testing.assert_array_equal(doc[0].vector, doc.tensor[0])
    assert doc.vector.shape == doc[:].vector.shape == (component(nlp).bilm.elmo.dim,)


def test_max_pooling(tiny: Path) -> None:
    doc = pipeline(tiny, pooling="max")("Live in  the present")
    np.testing.assert_array_equal(doc[:2].vector, doc.tensor[:2].max(0))
    np.testing.assert_array_equal(doc.vector, doc.tensor[[0, 1, 3, 4]].max(0))


def test_all_layers_are_kept_on_request(tiny: Path, elmo: Elmo) -> None:
    tokens = ["Live", "in", "the", "present"]
    assert pipeline(tiny)(" ".join(tokens))._.elmo_layers is None
    nlp = pipeline(tiny, layers="top", store_layers=True)
    doc = nlp(" ".join(tokens))
    (expected,) = elmo.encode_tokens([tokens], layers="all")
    same(doc._.elmo_layers, expected)
    same(doc.tensor, expected[-1])
    average = pipeline(tiny, store_layers=True)(" ".join(tokens))
    np.testing.assert_allclose(average.tensor, expected.mean(0), rtol=0, atol=1e-6)
    loaded = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    same(loaded._.elmo_layers, doc._.elmo_layers)


def test_empty_documents(tiny: Path) -> None:
    nlp = pipeline(tiny, store_layers=True)
    docs = list(nlp.pipe(["", "  ", "word", ""]))
    width = component(nlp).bilm.elmo.dim
    assert [doc.tensor.shape for doc in docs] == [(n, width) for n in (0, 1, 1, 0)]
    assert [doc.has_vector for doc in docs] == [False, False, True, False]
    for doc in docs[:2]:
        np.testing.assert_array_equal(doc.vector, np.zeros(width))
    assert docs[0]._.elmo_layers.shape == (3, 0, width)
    assert list(nlp.pipe([])) == []


def test_batches_are_counted_in_tokens(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    annotate = ElmoxComponent.annotate

    def counted(self: ElmoxComponent, docs: list[Doc]) -> None:
        sizes.append(len(docs))
        annotate(self, docs)

    monkeypatch.setattr(ElmoxComponent, "annotate", counted)
    texts = ["a b c", "d e", "f", "g h i j k l m", ""]
    expected = [pipeline(tiny)(text).tensor for text in texts]
    for config, batch_size, batches in (
        ({"batch_tokens": 5}, 1000, [2, 1, 1, 1]),
        ({}, 2, [2, 2, 1]),
        ({}, 1000, [5]),
    ):
        sizes.clear()
        docs = list(pipeline(tiny, **config).pipe(texts, batch_size=batch_size))
        assert sizes == batches
        for doc, vectors in zip(docs, expected, strict=True):
            np.testing.assert_allclose(doc.tensor, vectors, rtol=0, atol=2e-6)


def test_a_stored_document_gets_its_hooks_back(tiny: Path) -> None:
    nlp = pipeline(tiny)
    doc = nlp("a present is a present")
    loaded = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    np.testing.assert_array_equal(loaded.tensor, doc.tensor)
    assert loaded[1].similarity(loaded[4]) == 1.0  # spaCy's own
    set_hooks(loaded)
    assert loaded[1].similarity(loaded[4]) == doc[1].similarity(doc[4]) < 0.9999
    copied = pickle.loads(pickle.dumps(doc))
    assert copied[1].similarity(copied[4]) == doc[1].similarity(doc[4])


def test_pipelines_name_the_model_and_do_not_contain_it(tiny: Path, tmp_path: Path) -> None:
    nlp = pipeline(tiny, layers="top", pooling="max")
    expected = nlp("Live in the present").tensor
    nlp.to_disk(tmp_path / "pipeline")
    assert [path.name for path in (tmp_path / "pipeline" / "elmox").iterdir()] == ["elmox.json"]
    loaded = spacy.load(tmp_path / "pipeline")
    assert component(loaded).pooling == "max"
    same(loaded("Live in the present").tensor, expected)
    stored = nlp.get_pipe("elmox").to_bytes()
    assert len(stored) < 200
    from_bytes = pipeline(tiny, layers="top").from_bytes(nlp.to_bytes())
    same(from_bytes("Live in the present").tensor, expected)


def test_pipelines_contain_the_model_on_request(tmp_path: Path) -> None:
    weights = write_ai2(tmp_path / "ai2", random_options(), np.random.default_rng(1))
    nlp = pipeline(weights, store_model=True)
    expected = nlp("Live in the present").tensor
    nlp.to_disk(tmp_path / "pipeline")
    stored = nlp.to_bytes()
    weights.unlink()
    loaded = spacy.load(tmp_path / "pipeline")
    loaded.to_disk(tmp_path / "copy")
    blank = spacy.blank("en")
    blank.add_pipe("elmox", config={"model": str(weights), "store_model": True})
    for one in (loaded, spacy.load(tmp_path / "copy"), blank.from_bytes(stored)):
        same(one("Live in the present").tensor, expected)


def test_another_model_is_refused(tiny: Path, tmp_path: Path) -> None:
    other = write_ai2(tmp_path / "other", random_options(), np.random.default_rng(2))
    pipeline(tiny).to_disk(tmp_path / "pipeline")
    loaded = spacy.load(
        tmp_path / "pipeline", config={"components": {"elmox": {"model": str(other)}}}
    )
    with pytest.raises(ElmoxError, match="saved with another biLM"):
        loaded("Live")


def test_the_model_is_loaded_with_the_first_document_and_shared(tiny: Path) -> None:
    missing = pipeline(tiny.parent / "nowhere.hdf5")
    with pytest.raises(ElmoxError, match=r"nowhere\.hdf5"):
        missing("Live")
    first, second = pipeline(tiny), pipeline(tiny, layers="top")
    assert component(first).bilm.elmo is component(second).bilm.elmo
    assert len(pickle.dumps(component(first))) < 2000


def test_components_after_it_do_not_read_its_vectors(tiny: Path) -> None:
    nlp = pipeline(tiny)
    nlp.add_pipe("sentencizer")
    nlp("Live")
    nlp.add_pipe("tok2vec")
    with pytest.raises(ElmoxError, match="'tok2vec' comes after 'elmox'"):
        nlp("Live")
    nlp.remove_pipe("tok2vec")
    nlp.add_pipe("tok2vec", first=True)
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    tagger: Any = nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}}
    )
    tagger.add_label("X")
    with nlp.select_pipes(disable=["tok2vec", "tagger"]):
        nlp("Live")
    doc = nlp.make_doc("Live")
    with pytest.raises(ElmoxError, match="'tagger' comes after 'elmox'"):
        component(nlp)(doc)


@pytest.mark.parametrize(
    "config",
    [{"layers": "all"}, {"sentences": "lines"}, {"pooling": "sum"}, {"batch_tokens": 0}],
    ids=lambda config: next(iter(config)),
)
def test_bad_options_are_refused(tiny: Path, config: dict[str, Any]) -> None:
    with pytest.raises(ElmoxError, match=next(iter(config))):
        pipeline(tiny, **config)


def test_without_spacy_the_error_states_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.delitem(sys.modules, "elmox.integrations.spacy")
    with pytest.raises(ImportError, match=r"spaCy is not installed: pip install 'elmox\[spacy\]'"):
        importlib.import_module("elmox.integrations.spacy")
