"""The oracle against the golden fixtures and torch's LSTM."""

import io
import json
import tarfile
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
from checkpoints import (
    VOCABULARY,
    Options,
    allennlp_arrays,
    options_strategy,
    random_options,
    write_ai2,
    write_allennlp_archive,
    write_many_langs,
    write_nlpl_zip,
    write_token_file,
    write_word_model,
)
from checkpoints_many_langs import Kind
from golden import (
    ALLENNLP_ARCHIVE,
    BILM_FIXTURES,
    MANY_LANGS_FIXTURES,
    golden_calls,
    golden_many_langs,
    golden_tokens,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import Array, OracleWeights, byte_ids, layers, read_ai2, token_vectors, zero_state
from oracle_many_langs import read_many_langs
from sentences import batches, words
from shared_data import needs_shared

# The originals computed in float32: this is their error, not the oracle's.
ATOL = 2e-6
SEEDS = st.integers(0, 2**32 - 1)


def largest_difference(ours: list[Array], theirs: list[Any]) -> float:
    """The worst absolute difference between two lists of arrays of the same shapes."""
    assert [a.shape for a in ours] == [b.shape for b in theirs]
    return max(float(np.abs(a - b).max(initial=0)) for a, b in zip(ours, theirs, strict=True))


def random_model(options: Options, seed: int = 0, **kwargs: Any) -> OracleWeights:
    """A random model, written and read back."""
    with tempfile.TemporaryDirectory() as directory:
        rng = np.random.default_rng(seed)
        return read_ai2(write_ai2(Path(directory), options, rng, **kwargs))


def free_clips() -> dict[str, Any]:
    """Keyword arguments of a model that clips nothing."""
    return {"cell_clip": None, "proj_clip": "absent"}


def archived_state(path: Path) -> dict[str, NDArray[np.float32]]:
    """The state dict in an AllenNLP archive."""
    import torch

    with tarfile.open(path) as archive:
        member = archive.extractfile("weights.th")
        assert member is not None
        state = torch.load(io.BytesIO(member.read()), weights_only=True)
    return {name: tensor.numpy() for name, tensor in state.items()}


@needs_shared
@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_top_layer_of_ten_stateful_calls(name: str) -> None:
    golden = golden_calls(name)
    weights = read_ai2(golden.weights, golden.options)
    state = None
    for sentences, expected in zip(golden.calls, golden.top_layers, strict=True):
        result, state = layers(weights, sentences, state)
        assert largest_difference([stack[-1] for stack in result], expected) < ATOL


@needs_shared
@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_golden_outputs_need_the_carried_state_and_the_clips(name: str) -> None:
    golden = golden_calls(name)
    weights = read_ai2(golden.weights, golden.options)
    reset, _ = layers(weights, golden.calls[1])
    assert largest_difference([stack[-1] for stack in reset], golden.top_layers[1]) > 100 * ATOL
    unclipped = replace(weights, cell_clip=None, proj_clip=None)
    first, _ = layers(unclipped, golden.calls[0])
    assert largest_difference([stack[-1] for stack in first], golden.top_layers[0]) > 100 * ATOL


@needs_shared
def test_token_vectors_of_the_vocabulary() -> None:
    golden = golden_tokens()
    weights = read_ai2(golden.weights, golden.options)
    assert largest_difference([token_vectors(weights, golden.words)], [golden.vectors]) < ATOL


@needs_shared
def test_cached_token_file_in_place_of_the_characters() -> None:
    tokens, golden = golden_tokens(), golden_calls("allennlp")
    weights = read_ai2(
        tokens.weights, tokens.options, vocabulary=tokens.vocabulary, token_file=tokens.token_file
    )
    result, _ = layers(weights, golden.calls[0])
    assert largest_difference([stack[-1] for stack in result], golden.top_layers[0]) < ATOL


@needs_shared
@pytest.mark.parametrize("name", MANY_LANGS_FIXTURES)
def test_many_langs_layers(name: str) -> None:
    golden = golden_many_langs(name)
    result, _ = layers(read_many_langs(golden.directory), golden.sentences)
    assert largest_difference(result, golden.layers) < ATOL


@needs_shared
def test_archive_writer_follows_the_real_archive() -> None:
    golden = golden_calls("allennlp")
    arrays: dict[str, NDArray[np.float32]] = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = np.asarray(item)

    with h5py.File(golden.weights) as file:
        file.visititems(collect)
    ours = allennlp_arrays(arrays, json.loads(golden.options.read_text("utf-8")))
    prefix = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm."
    theirs = {
        name.removeprefix(prefix): array
        for name, array in archived_state(ALLENNLP_ARCHIVE).items()
        if name.startswith(prefix)
    }
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)


def test_byte_ids_of_known_words() -> None:
    assert byte_ids("Aé", 7) == [259, 0x41 + 1, 0xC3 + 1, 0xA9 + 1, 260, 261, 261]
    assert byte_ids("<S>", 5) == [259, 257, 260, 261, 261]
    assert byte_ids("</S>", 5) == [259, 258, 260, 261, 261]
    assert byte_ids("<UNK>", 7) == [259, *(byte + 1 for byte in b"<UNK>"), 260]
    assert byte_ids("", 5) == byte_ids("\ud800", 5) == [259, 260, 261, 261, 261]
    assert byte_ids("ab€", 5) == [259, 0x61 + 1, 0x62 + 1, 0xE2 + 1, 260], "cut inside the €"


@settings(deadline=None)
@given(words(), st.integers(5, 60))
def test_byte_ids_fill_the_slots(word: str, max_characters: int) -> None:
    ids = byte_ids(word, max_characters)
    assert len(ids) == max_characters
    end = ids.index(260)
    assert ids[0] == 259
    assert set(ids[end + 1 :]) <= {261}
    assert all(1 <= i <= 258 for i in ids[1:end])


@settings(deadline=None)
@given(options_strategy(), SEEDS, st.data())
def test_any_model_runs_any_sentences(options: Options, seed: int, data: st.DataObject) -> None:
    max_characters = options["char_cnn"]["max_characters_per_token"]
    sentences = data.draw(batches(max_characters, max_sentences=2, max_words=3))
    lstm = options["lstm"]
    weights = random_model(options, seed)
    result, state = layers(weights, sentences)
    for sentence, stack in zip(sentences, result, strict=True):
        assert stack.shape == (lstm["n_layers"] + 1, len(sentence), 2 * lstm["projection_dim"])
        assert np.isfinite(stack).all()
    if lstm.get("cell_clip") is not None:
        assert np.abs(state.c).max() <= lstm["cell_clip"]
    if lstm.get("proj_clip") is not None and lstm["dim"] != lstm["projection_dim"]:
        assert np.abs(state.h).max() <= lstm["proj_clip"]


def test_small_clips_bite() -> None:
    sentence = [["the", "cat", "sat"]]
    expected, _ = layers(random_model(random_options(**free_clips())), sentence)
    for clips in ({"cell_clip": 0.05}, {"proj_clip": 0.05}):
        clipped, _ = layers(random_model(random_options(**(free_clips() | clips))), sentence)
        assert largest_difference(clipped, expected) > 0.01


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_without_clips_and_skips_a_stack_is_torchs_lstm(projected: bool, n_layers: int) -> None:
    import torch

    options = random_options(
        skip=False, n_layers=n_layers, dim=10 if projected else 6, **free_clips()
    )
    weights = random_model(options)
    sentence = ["the", "cat", "sat", "."]
    tokens = torch.from_numpy(token_vectors(weights, ["<S>", *sentence, "</S>"]))
    result, _ = layers(weights, [sentence])
    for direction in range(2):
        lstm = torch.nn.LSTM(
            6, options["lstm"]["dim"], n_layers, proj_size=6 if projected else 0, dtype=torch.double
        )
        tensors = {}
        for layer, cell in enumerate(weights.cells[direction]):
            gates = (cell.i, cell.f, cell.j, cell.o)
            weight = np.concatenate([gate.weight.T for gate in gates])
            tensors[f"weight_ih_l{layer}"] = weight[:, :6]
            tensors[f"weight_hh_l{layer}"] = weight[:, 6:]
            tensors[f"bias_ih_l{layer}"] = np.concatenate([gate.bias for gate in gates])
            tensors[f"bias_hh_l{layer}"] = np.zeros(len(weight))
            if cell.projection is not None:
                tensors[f"weight_hr_l{layer}"] = cell.projection.T
        lstm.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in tensors.items()})
        with torch.no_grad():
            expected = lstm(tokens.flip(0))[0].flip(0) if direction else lstm(tokens)[0]
        ours = result[0][-1][:, 6 * direction : 6 * (direction + 1)]
        np.testing.assert_allclose(ours, expected.numpy()[1:-1], atol=1e-12)


def test_state_is_a_value_carried_row_by_row() -> None:
    weights = random_model(random_options())
    first, second = [["the", "cat"], [], ["a"]], [["sat"], ["b", "c"]]
    _, state = layers(weights, first)
    before = state.h.copy(), state.c.copy()
    result, after = layers(weights, second, state)
    np.testing.assert_array_equal(state.h, before[0])
    np.testing.assert_array_equal(state.c, before[1])
    for row in range(2):  # a row depends on that row alone; so does one that was empty
        _, alone = layers(weights, [first[row]])
        expected, alone = layers(weights, [second[row]], alone)
        np.testing.assert_array_equal(result[row], expected[0])
        np.testing.assert_array_equal(after.h[row], alone.h[0])
    np.testing.assert_array_equal(after.c[2], state.c[2])  # not in the second call: kept
    grown, _ = layers(weights, [*second, ["d"], ["e"]], state)
    fresh, _ = layers(weights, [["e"]], zero_state(weights, 1))
    np.testing.assert_array_equal(grown[3], fresh[0])  # new in this call: starts at zero
    assert np.abs(state.h[1]).max() > 0, "an empty sentence still reads its boundaries"


def test_one_seed_is_one_model_in_any_container(tmp_path: Path) -> None:
    options = random_options(n_layers=1)
    plain = write_ai2(tmp_path / "plain", options, np.random.default_rng(5))
    expected, _ = layers(read_ai2(plain), [["the", "cat"]])
    assert np.abs(expected[0]).max() > 0.01
    for variant in ({"char_rows": 262}, {"single_cell_names": True}):
        same, _ = layers(random_model(options, 5, **variant), [["the", "cat"]])
        np.testing.assert_array_equal(same[0], expected[0])
    with zipfile.ZipFile(write_nlpl_zip(tmp_path, options, np.random.default_rng(5))) as archive:
        archive.extractall(tmp_path / "zip")
    same, _ = layers(read_ai2(tmp_path / "zip" / "model.hdf5"), [["the", "cat"]])
    np.testing.assert_array_equal(same[0], expected[0])


@pytest.mark.parametrize("num_mixes", [1, 2])
@pytest.mark.parametrize("options_at", ["path", "archive", "missing"])
def test_allennlp_archive_holds_the_model_and_its_mixes(
    tmp_path: Path, num_mixes: int, options_at: Literal["path", "archive", "missing"]
) -> None:
    options = random_options()
    path = write_allennlp_archive(
        tmp_path, options, np.random.default_rng(5), num_mixes=num_mixes, options_at=options_at
    )
    state = archived_state(path)
    mixes = [name for name in state if ".scalar_mix_" in name]
    assert len(mixes) == num_mixes * (1 + 3)
    carry = random_model(options, 5).encoder.highways[0][0].weight  # type: ignore[attr-defined]
    (name,) = (name for name in state if name.endswith("_highways._layers.0.weight"))
    np.testing.assert_array_equal(-state[name][len(carry) :].T, carry)
    with tarfile.open(path) as archive:
        assert any(member.startswith("fta/") for member in archive.getnames()) == (
            options_at == "archive"
        )


def test_words_outside_a_vocabulary_are_unknown(tmp_path: Path) -> None:
    options, rng = random_options(), np.random.default_rng(5)
    model = write_word_model(tmp_path / "words", options, rng)
    words_only = read_ai2(model, vocabulary=model.with_name("vocab.txt"))
    known, unknown, literal = token_vectors(words_only, ["cat", "dog", "<UNK>"])
    np.testing.assert_array_equal(unknown, literal)
    assert np.abs(known - unknown).max() > 0.01
    with h5py.File(model) as file:
        np.testing.assert_array_equal(token_vectors(words_only, VOCABULARY), file["embedding"])

    characters = write_ai2(tmp_path / "characters", options, rng)
    cache = write_token_file(tmp_path / "cache", 6, rng)
    cached = read_ai2(characters, vocabulary=cache.with_name("vocab.txt"), token_file=cache)
    result, _ = layers(cached, [["cat"]])
    np.testing.assert_array_equal(result[0][0, 0, :6], token_vectors(cached, ["cat"])[0])
    assert np.abs(result[0] - layers(read_ai2(characters), [["cat"]])[0][0]).max() > 0.01


@pytest.mark.parametrize("kind", ["char", "word_char", "word"])
def test_many_langs_reads_what_a_kind_has(tmp_path: Path, kind: Kind) -> None:
    folder = write_many_langs(tmp_path, kind, np.random.default_rng(5), max_characters=10)
    weights = read_many_langs(folder)
    result, _ = layers(weights, [["the", "cat"], []])
    assert [stack.shape for stack in result] == [(3, 2, 12), (3, 0, 12)]
    cut, longer, other, unseen = token_vectors(
        weights, ["abcdefgh", "abcdefghij", "abcdefgx", "\ud800"]
    )
    np.testing.assert_array_equal(cut, longer)
    spelled = "char" in kind
    assert (np.abs(cut - other).max() > 0) == spelled, "only spelling tells unknown words apart"
    assert (np.abs(cut - unseen).max() > 0) == spelled
