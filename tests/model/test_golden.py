"""The model against vectors that the original programs wrote."""

import numpy as np
import pytest
from golden import (
    ALLENNLP_ARCHIVE,
    BILM_FIXTURES,
    MANY_LANGS_FIXTURES,
    golden_calls,
    golden_many_langs,
    golden_tokens,
)
from shared_data import needs_shared

from elmox import Elmo

pytestmark = needs_shared
TOLERANCE = 1e-5


@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_ten_calls_with_carried_state(name: str) -> None:
    golden = golden_calls(name)
    elmo = Elmo.from_pretrained(golden.weights).stateful()
    for call, expected in zip(golden.calls, golden.top_layers, strict=True):
        for ours, theirs in zip(elmo.encode_tokens(call, layers="top"), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_only_the_first_call_agrees_without_carried_state(name: str) -> None:
    golden = golden_calls(name)
    elmo = Elmo.from_pretrained(golden.weights)
    first, second = (elmo.encode_tokens(call, layers="top") for call in golden.calls[:2])
    np.testing.assert_allclose(first[0], golden.top_layers[0][0], rtol=0, atol=TOLERANCE)
    assert np.abs(second[0] - golden.top_layers[1][0]).max() > 1e-2


def test_token_vectors() -> None:
    golden = golden_tokens()
    elmo = Elmo.from_pretrained(golden.weights)
    vectors = elmo.reader.token_vectors(golden.words).numpy()
    np.testing.assert_allclose(vectors, golden.vectors, rtol=0, atol=TOLERANCE)


def test_cached_token_file_with_carried_state() -> None:
    golden, tokens = golden_calls("allennlp"), golden_tokens()
    elmo = Elmo.from_pretrained(
        golden.weights, token_embeddings=tokens.token_file, vocab=tokens.vocabulary
    )
    assert elmo.config.char_cnn is None
    carried = elmo.stateful()
    for call, expected in zip(golden.calls, golden.top_layers, strict=True):
        for ours, theirs in zip(carried.encode_tokens(call, layers="top"), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", MANY_LANGS_FIXTURES)
def test_many_langs(name: str) -> None:
    golden = golden_many_langs(name)
    elmo = Elmo.from_pretrained(golden.directory)
    for ours, theirs in zip(
        elmo.encode_tokens(golden.sentences, layers="all"), golden.layers, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)


def test_allennlp_archive_is_the_model_it_was_made_from() -> None:
    golden = golden_calls("allennlp")
    original = Elmo.from_pretrained(golden.weights)
    archived = Elmo.from_pretrained(ALLENNLP_ARCHIVE)
    assert "AllenNLP" in archived.description
    assert list(archived.mixes) == ["scalar_mix_0"]
    for ours, theirs in zip(
        archived.encode_tokens(golden.calls[0], layers="all"),
        original.encode_tokens(golden.calls[0], layers="all"),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_vectors_do_not_depend_on_batch_order_or_padding(name: str) -> None:
    golden = golden_calls(name)
    elmo = Elmo.from_pretrained(golden.weights)
    sentences = [row for call in golden.calls for row in call]
    for mode in ("zero", "warm"):
        if mode == "warm":
            elmo.warm_up(sentences[:5])
        together = elmo.encode_tokens(sentences, layers="all")
        backwards = elmo.encode_tokens(sentences[::-1], layers="all", batch_size=7)[::-1]
        alone = [elmo.encode_tokens([sentence], layers="all")[0] for sentence in sentences]
        for a, b, c in zip(together, backwards, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)
            np.testing.assert_allclose(a, c, rtol=0, atol=2e-6)
