"""The model against an independent NumPy pass in float64, on random checkpoints of any shape."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import oracle_many_langs
import pytest
import torch
from checkpoints import (
    VOCABULARY,
    options_strategy,
    random_options,
    write_ai2,
    write_many_langs,
    write_token_file,
    write_word_model,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import batches

from elmox import Elmo
from elmox.inference.layer_choice import choose_layers
from elmox.text.batches import index_sentences

TOLERANCE = {"float64": 1e-10, "float32": 2e-5}


def in_double(elmo: Elmo) -> Elmo:
    elmo.reader.bilm.double()
    return elmo


def all_layers(elmo: Elmo, sentences: list[list[str]]) -> list[Any]:
    vectors = elmo.encode_tokens(sentences, layers="all", convert_to_tensor=True)
    return [each.numpy() for each in vectors]


def differentiable_layers(elmo: Elmo, sentences: list[list[str]]) -> list[Any]:
    """The plain path, which autograd can follow."""
    reader = elmo.reader
    batch = index_sentences(sentences, reader.indexer.begin, reader.indexer.end)
    with torch.enable_grad():
        vectors = reader.bilm.token_encoder(reader.indexer(batch.words))
        tokens = vectors[torch.from_numpy(batch.index)]
        layers, _ = reader.bilm(tokens, batch.lengths, elmo.start_state(len(sentences)))
    ends = np.cumsum(batch.lengths)
    return [
        layers[:, end - length + 1 : end - 1].detach().numpy()
        for end, length in zip(ends, batch.lengths, strict=True)
    ]


def check(ours: list[Any], expected: list[Any], tolerance: float) -> None:
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), options=options_strategy(), seed=st.integers(0, 10**6))
def test_any_architecture_and_any_words(data: st.DataObject, options: Any, seed: int) -> None:
    sentences = data.draw(batches(options["char_cnn"]["max_characters_per_token"]))
    with tempfile.TemporaryDirectory() as folder:
        rows: Any = data.draw(st.sampled_from((261, 262)))
        path = write_ai2(Path(folder), options, np.random.default_rng(seed), char_rows=rows)
        weights = oracle.read_ai2(path)
        elmo = Elmo.from_pretrained(path)
    expected, _ = oracle.layers(weights, sentences)
    check(elmo.encode_tokens(sentences, layers="all"), expected, TOLERANCE["float32"])
    in_double(elmo)
    check(all_layers(elmo, sentences), expected, TOLERANCE["float64"])
    check(differentiable_layers(elmo, sentences), expected, TOLERANCE["float64"])


@settings(max_examples=25, deadline=None)
@given(
    calls=st.lists(batches(max_sentences=3, max_words=4), min_size=2, max_size=4),
    batch_size=st.sampled_from((None, 1, 2)),
)
def test_carried_state_row_by_row(
    calls: list[list[list[str]]], batch_size: int | None, carried_model: tuple[Path, Any]
) -> None:
    path, weights = carried_model
    carried = in_double(Elmo.from_pretrained(path)).stateful()
    state = None
    for call in calls:
        expected, state = oracle.layers(weights, call, state)
        ours = carried.encode_tokens(
            call, layers="all", convert_to_tensor=True, batch_size=batch_size
        )
        check([each.numpy() for each in ours], expected, TOLERANCE["float64"])


@pytest.fixture(scope="module")
def carried_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    options = random_options(cell_clip=0.4, proj_clip=0.3)
    path = write_ai2(tmp_path_factory.mktemp("carried"), options, np.random.default_rng(5))
    return path, oracle.read_ai2(path)


def test_three_thousand_tokens(tmp_path: Path) -> None:
    path = write_ai2(tmp_path, random_options(), np.random.default_rng(1))
    words = [f"w{i % 97}" for i in range(3000)]
    expected, _ = oracle.layers(oracle.read_ai2(path), [words])
    check(all_layers(in_double(Elmo.from_pretrained(path)), [words]), expected, 1e-10)
    check(Elmo.from_pretrained(path).encode_tokens([words], layers="all"), expected, 1e-5)


@pytest.mark.parametrize("single_cell_names", [False, True])
def test_one_layer_without_wrapper_names(tmp_path: Path, single_cell_names: bool) -> None:
    options = random_options(n_layers=1)
    rng = np.random.default_rng(2)
    path = write_ai2(tmp_path, options, rng, single_cell_names=single_cell_names)
    expected, _ = oracle.layers(oracle.read_ai2(path), [["a", "bc"]])
    check(all_layers(in_double(Elmo.from_pretrained(path)), [["a", "bc"]]), expected, 1e-10)


@settings(max_examples=20, deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from((*VOCABULARY, "unseen")), max_size=5), min_size=1),
    seed=st.integers(0, 1000),
)
def test_word_vocabulary_models(sentences: list[list[str]], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_word_model(Path(folder), random_options(), np.random.default_rng(seed))
        weights = oracle.read_ai2(path, vocabulary=Path(folder) / "vocab.txt")
        elmo = in_double(Elmo.from_pretrained(path))
    check(all_layers(elmo, sentences), oracle.layers(weights, sentences)[0], 1e-10)


def test_cached_token_file_replaces_the_character_cnn(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = write_ai2(tmp_path / "model", random_options(), rng)
    tokens = write_token_file(tmp_path / "tokens", 6, rng)
    vocab = tmp_path / "tokens" / "vocab.txt"
    weights = oracle.read_ai2(path, vocabulary=vocab, token_file=tokens)
    sentences = [["the", "cat"], ["天", "unseen", "."]]
    elmo = in_double(Elmo.from_pretrained(path, token_embeddings=tokens, vocab=vocab))
    check(all_layers(elmo, sentences), oracle.layers(weights, sentences)[0], 1e-10)


@settings(max_examples=30, deadline=None)
@given(
    sentences=batches(max_words=4),
    kind=st.sampled_from(("char", "word_char", "word")),
    dim=st.sampled_from((6, 10)),
    max_characters=st.sampled_from((5, 50)),
    seed=st.integers(0, 1000),
)
def test_many_langs_folders(
    sentences: list[list[str]], kind: Any, dim: int, max_characters: int, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        rng = np.random.default_rng(seed)
        folder = write_many_langs(Path(name), kind, rng, dim=dim, max_characters=max_characters)
        weights = oracle_many_langs.read_many_langs(folder)
        elmo = in_double(Elmo.from_pretrained(folder))
    check(all_layers(elmo, sentences), oracle.layers(weights, sentences)[0], 1e-10)


def test_windows_change_nothing(tmp_path: Path) -> None:
    path = write_ai2(tmp_path, random_options(), np.random.default_rng(4))
    reader = in_double(Elmo.from_pretrained(path)).reader
    sentences = [["a"] * 7, ["b", "c"], ["d"] * 31, []]
    choice = choose_layers("all", 3, {})
    whole, state = reader.read(sentences, reader.zero_state(4), choice, window_tokens=10**6)
    for window_tokens in (1, 2, 5, 17):
        parts, after = reader.read(sentences, reader.zero_state(4), choice, window_tokens)
        torch.testing.assert_close(parts.values, whole.values, rtol=0, atol=1e-14)
        torch.testing.assert_close(after.cell, state.cell, rtol=0, atol=1e-14)
        torch.testing.assert_close(after.hidden, state.hidden, rtol=0, atol=1e-14)
