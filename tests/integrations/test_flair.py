"""ELMo as token embeddings of flair.

flair 0.15.1, its newest version, needs transformers 4; the other integrations are tested with 5.
So these tests run where flair is installed, in an environment of its own, and skip elsewhere.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import elmox
from elmox import ElmoxError

TEXTS = [["Live", "in", "the", "present"], ["naïve", "天😀", "."], ["Now"]]
EXACT = 1e-6


def test_without_flair_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "flair"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flair", None)
    monkeypatch.delitem(sys.modules, "elmox.integrations.flair", raising=False)
    with pytest.raises(ElmoxError, match=r"flair is not installed: pip install .elmox\[flair\]"):
        __import__("elmox.integrations.flair")


@pytest.fixture
def flair() -> Any:
    return pytest.importorskip("flair")


def sentences() -> list[Any]:
    from flair.data import Sentence

    return [Sentence(words, use_tokenizer=False) for words in TEXTS]


@pytest.mark.parametrize("layers", ["mix", "average", "top", 0, [0, 2], "all"])
def test_vectors_are_those_of_encode_tokens(flair: Any, tiny: Path, layers: Any) -> None:
    from elmox.integrations.flair import ElmoEmbeddings

    embeddings = ElmoEmbeddings(str(tiny), layers=layers)
    embedded = embeddings.embed(sentences())
    chosen = "average" if layers == "mix" else layers  # a mix that has learned nothing yet
    expected = elmox.Elmo.from_pretrained(tiny).encode_tokens(TEXTS, layers=chosen)
    for sentence, vectors in zip(embedded, expected, strict=True):
        wide = (
            vectors.reshape(-1, *vectors.shape[-2:]).transpose(1, 0, 2).reshape(len(sentence), -1)
        )
        actual = torch.stack([token.embedding for token in sentence]).detach().numpy()
        np.testing.assert_allclose(actual, wide, atol=EXACT)
        assert actual.shape[1] == embeddings.embedding_length


def test_a_changed_mix_is_used_at_once_and_fixed_layers_are_computed_once(
    flair: Any, tiny: Path
) -> None:
    from elmox.integrations.flair import ElmoEmbeddings

    mixed, fixed = ElmoEmbeddings(str(tiny)), ElmoEmbeddings(str(tiny), layers="top")
    texts = sentences()
    assert mixed.mix is not None
    with torch.no_grad():
        before = mixed.embed(texts)[0][0].get_embedding([mixed.name]).clone()
        mixed.mix.gamma.fill_(2.0)
        after = mixed.embed(texts)[0][0].get_embedding([mixed.name])
    torch.testing.assert_close(after, 2 * before)
    fixed.embed(texts)
    assert fixed._everything_embedded(texts)


def test_a_tagger_learns_the_mix_and_is_saved_without_the_bilm(
    flair: Any, tiny: Path, tmp_path: Path
) -> None:
    from flair.data import Corpus, Sentence
    from flair.datasets import FlairDatapointDataset
    from flair.models import SequenceTagger
    from flair.trainers import ModelTrainer

    from elmox.integrations.flair import ElmoEmbeddings

    flair.set_seed(0)
    tagged = []
    for words in [["the", "cat", "sat"], ["a", "film"], ["the", "film", "was", "good"]] * 4:
        sentence = Sentence(words, use_tokenizer=False)
        for token in sentence:
            token.add_label("pos", "N" if token.text in ("cat", "film") else "X")
        tagged.append(sentence)
    data = FlairDatapointDataset(tagged)
    corpus = Corpus(train=data, dev=data, test=data, sample_missing_splits=False)
    embeddings = ElmoEmbeddings(str(tiny))
    assert embeddings.mix is not None
    tagger = SequenceTagger(
        embeddings=embeddings, tag_dictionary=corpus.make_label_dictionary("pos"), tag_type="pos",
        hidden_size=8, use_crf=False, allow_unk_predictions=False,
    )  # fmt: skip
    result = ModelTrainer(tagger, corpus).train(
        str(tmp_path / "run"), learning_rate=0.05, mini_batch_size=4, max_epochs=20,
        optimizer=torch.optim.AdamW,
        embeddings_storage_mode="cpu", train_with_dev=False, monitor_test=False,
    )  # fmt: skip
    assert result["test_score"] > 0.9
    assert embeddings.mix.gamma.item() != 1.0

    tagger.save(tmp_path / "tagger.pt")
    stored = torch.load(tmp_path / "tagger.pt", map_location="cpu", weights_only=False)
    assert not any("bilm" in name for name in stored["state_dict"])
    loaded = SequenceTagger.load(tmp_path / "tagger.pt")
    torch.testing.assert_close(loaded.embeddings.mix.weights, embeddings.mix.weights)
    text = Sentence(["the", "cat"], use_tokenizer=False)
    loaded.predict(text)
    assert [label.value for label in text.get_labels("pos")] == ["X", "N"]


def test_another_bilm_is_refused(flair: Any, tiny: Path) -> None:
    from flair.embeddings.base import load_embeddings

    from elmox.integrations.flair import ElmoEmbeddings

    stored = ElmoEmbeddings(str(tiny), layers="top").save_embeddings()
    assert load_embeddings(dict(stored)).layers == "top"
    with pytest.raises(ElmoxError, match="not the biLM"):
        load_embeddings(stored | {"model": None})
