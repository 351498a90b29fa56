"""AllenNLP's names against golden vectors, elmox's classes, and AllenNLP itself."""

import copy
import importlib.util
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from checkpoints import VOCABULARY, random_options, write_ai2, write_many_langs, write_word_model
from golden import BILM_FIXTURES, golden_calls
from hypothesis import assume, given, settings
from sentences import batches
from shared_data import needs_shared

import elmox
from elmox.bench.allennlp import load_allennlp
from elmox.errors import ElmoxError
from elmox.inference.layer_choice import choose_layers
from elmox.integrations.allennlp import Elmo, ElmoEmbedder, ElmoTokenEmbedder, batch_to_ids

Batch = list[list[str]]

TOLERANCE = 1e-5
TOP_ONLY = [-9e10, -9e10, 1.0]
WORDS = ("the", "cat", "sat", ".", "naïve", "天", "😀", "", "<S>", "a" * 60, "é" * 30, "The")
FIRST: Batch = [["the", "cat", "sat", "."], ["The", "天"], ["naïve"]]
SECOND: Batch = [["sat"], ["the", "naïve", "cat", "."], ["😀", "."]]

needs_allennlp = pytest.mark.skipif(
    importlib.util.find_spec("allennlp") is None, reason="AllenNLP 2.10.1 is not installed"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ai2(tmp_path_factory.mktemp("ai2"), random_options(), np.random.default_rng(0))


def make(weights: Path, num_mixes: int = 1, **arguments: Any) -> Elmo:
    """Make a module without dropout, whose default is 0.5."""
    options = weights.with_name("options.json")
    return Elmo(str(options), str(weights), num_mixes, **{"dropout": 0.0} | arguments)


def random_batch(rng: np.random.Generator, num_sentences: int) -> Batch:
    lengths = rng.integers(1, 7, num_sentences)
    return [list(rng.choice(WORDS, length)) for length in lengths]


def assert_close(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> None:
    ours, theirs = (x.detach() if isinstance(x, torch.Tensor) else x for x in (ours, theirs))
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0, atol=tolerance)


def assert_rows(padded: torch.Tensor, mask: torch.Tensor, rows: Sequence[Any]) -> None:
    """Padded (B, T, D) holds these rows, and exact zeros beyond them."""
    assert padded.shape[:2] == mask.shape
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [len(row) for row in rows]
    assert not padded[~mask].any()
    for sentence, row in zip(padded, rows, strict=True):
        assert_close(sentence[: len(row)], row)


def top(layers: Any) -> Any:
    return layers[-1]


# batch_to_ids


def test_ids_of_a_batch() -> None:
    ids = batch_to_ids([["aé", "</S>", ""], []])
    assert ids.shape == (2, 3, 50)
    assert ids.dtype == torch.int64
    assert ids[0, 0].tolist() == [259, 98, 196, 170, 260, *[261] * 45]
    assert ids[0, 1].tolist() == [259, 258, 260, *[261] * 47]
    assert ids[0, 2].tolist() == [259, 260, *[261] * 48]
    assert not ids[1].any()
    assert batch_to_ids([[], []]).shape == (2, 0, 50)
    assert batch_to_ids([]).shape == (0, 0, 50)
    assert torch.equal(batch_to_ids(["cat"]), batch_to_ids([["c", "a", "t"]]))


def test_token_that_is_no_string() -> None:
    with pytest.raises(ElmoxError, match="token 7 is a int"):
        batch_to_ids([["a", 7]])  # type: ignore[list-item]


# Values


@needs_shared
@pytest.mark.parametrize("name", BILM_FIXTURES)
def test_ten_golden_calls(name: str) -> None:
    golden = golden_calls(name)
    embedder = ElmoEmbedder(str(golden.options), str(golden.weights))
    frozen = Elmo(golden.options, golden.weights, 1, scalar_mix_parameters=TOP_ONLY).eval()
    tuned = Elmo(golden.options, golden.weights, 1, True, scalar_mix_parameters=TOP_ONLY).eval()
    for call, expected in zip(golden.calls, golden.top_layers, strict=True):
        for ours, theirs in zip(embedder.embed_batch(call), expected, strict=True):
            assert_close(top(ours), theirs)
        for elmo in (frozen, tuned):
            out = elmo(batch_to_ids(call))
            assert_rows(out["elmo_representations"][0], out["mask"], expected)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_stateless_is_elmox_itself(weights: Path, requires_grad: bool) -> None:
    native = elmox.Elmo.from_pretrained(weights, device="cpu")
    elmo = make(weights, requires_grad=requires_grad, stateful=False)
    embedder = ElmoEmbedder(None, weights, stateful=False)
    for batch in (FIRST, FIRST, SECOND):
        out = elmo(batch_to_ids(batch))
        average = native.encode_tokens(batch)
        assert_rows(out["elmo_representations"][0], out["mask"], average)
        layers = native.encode_tokens(batch, layers="all")
        for ours, theirs in zip(embedder.embed_batch(batch), layers, strict=True):
            assert_close(ours, theirs, 1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_state_is_carried_row_by_row_while_batches_grow_and_shrink(
    weights: Path, requires_grad: bool
) -> None:
    rng = np.random.default_rng(1)
    carried = elmox.Elmo.from_pretrained(weights, device="cpu").stateful()
    elmo = make(weights, requires_grad=requires_grad)
    embedder = ElmoEmbedder(None, weights)
    for num_sentences in (2, 4, 1, 3, 5, 5):
        batch = random_batch(rng, num_sentences)
        expected = carried.encode_tokens(batch, layers="all")
        out = elmo(batch_to_ids(batch))
        average = [layers.mean(0) for layers in expected]
        assert_rows(out["elmo_representations"][0], out["mask"], average)
        for ours, theirs in zip(embedder.embed_batch(batch), expected, strict=True):
            assert_close(ours, theirs, 1e-6)


def test_reset_states(weights: Path) -> None:
    elmo, embedder = make(weights), ElmoEmbedder(None, weights)

    def read() -> tuple[Any, Any]:
        mixed = elmo(batch_to_ids(FIRST))["elmo_representations"][0]
        return mixed.detach().numpy(), embedder.embed_batch(FIRST)[0]

    first, second = read(), read()
    elmo.reset_states()
    embedder.reset_states()
    for a, b, again in zip(first, second, read(), strict=True):
        assert np.abs(a - b).max() > 1e-3
        np.testing.assert_array_equal(a, again)


def test_state_is_no_parameter_but_is_copied_and_moved(weights: Path) -> None:
    elmo = make(weights)
    names = list(elmo.state_dict())
    with torch.inference_mode():
        elmo(batch_to_ids(FIRST))
    assert list(elmo.state_dict()) == names
    twin = copy.deepcopy(elmo).double()
    out = elmo(batch_to_ids(SECOND[:1]))["elmo_representations"][0]
    moved = twin(batch_to_ids(SECOND[:1]))["elmo_representations"][0]
    assert moved.dtype == torch.float64
    assert_close(out, moved)
    back = twin.float()(batch_to_ids(SECOND))["elmo_representations"][0]
    assert_close(back, elmo(batch_to_ids(SECOND))["elmo_representations"][0])
    fresh = make(weights)(batch_to_ids(SECOND[:1]))["elmo_representations"][0]
    assert (out - fresh).abs().max() > 1e-3


def test_carried_state_keeps_no_graph(weights: Path) -> None:
    elmo = make(weights, requires_grad=True)
    for batch in (FIRST, SECOND):  # a second backward through the first graph would raise
        elmo(batch_to_ids(batch))["elmo_representations"][0].sum().backward()


@pytest.mark.parametrize("max_characters", [12, 50, 70])
@settings(deadline=None, max_examples=50)
@given(batch=batches(max_characters=12))
def test_any_text_and_any_number_of_slots(
    max_characters: int, batch: Batch, slot_models: Callable[[int], tuple[Elmo, elmox.Elmo]]
) -> None:
    # batch_to_ids keeps 48 bytes, whatever the model could read.
    assume(
        max_characters <= 50
        or all(len(w.encode("utf-8", "ignore")) <= 48 for s in batch for w in s)
    )
    elmo, native = slot_models(max_characters)
    out = elmo(batch_to_ids(batch))
    assert_rows(out["elmo_representations"][0], out["mask"], native.encode_tokens(batch))


def test_ids_that_no_word_has(weights: Path) -> None:
    ids = torch.from_numpy(np.random.default_rng(5).integers(0, 262, (2, 3, 50)))
    ids[0, :, 20:], ids[1, :, 5:40] = 261, 261
    frozen, tuned = make(weights), make(weights, requires_grad=True)
    assert_close(frozen(ids)["elmo_representations"][0], tuned(ids)["elmo_representations"][0])


@pytest.fixture(scope="module")
def slot_models(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[int], tuple[Elmo, elmox.Elmo]]:
    """Models of some numbers of character slots, without skip connections."""
    models = {}
    for number in (12, 50, 70):
        options = random_options(max_characters=number, skip=False)
        path = write_ai2(tmp_path_factory.mktemp("slots"), options, np.random.default_rng(number))
        native = elmox.Elmo.from_pretrained(path, device="cpu")
        models[number] = (make(path, stateful=False), native)
    return models.__getitem__


# Shapes and options of the module


def test_several_mixes_and_output_dim(weights: Path) -> None:
    elmo = make(weights, 3)
    out = elmo(batch_to_ids(FIRST))
    assert sorted(out) == ["elmo_representations", "mask"]
    assert [r.shape for r in out["elmo_representations"]] == [(3, 4, 12)] * 3
    assert elmo.get_output_dim() == 12


def test_more_dimensions_and_more_padding(weights: Path) -> None:
    elmo = make(weights, stateful=False)
    ids = torch.zeros(2, 3, 6, 50, dtype=torch.int64)
    ids[0, :, :4], ids[1, :, :4] = batch_to_ids(FIRST), batch_to_ids(SECOND)
    out = elmo(ids)
    assert out["mask"].shape == (2, 3, 6)
    native = elmox.Elmo.from_pretrained(weights, device="cpu")
    for number, batch in enumerate((FIRST, SECOND)):
        rows = native.encode_tokens(batch)
        assert_rows(out["elmo_representations"][0][number], out["mask"][number], rows)


def test_rows_without_tokens_are_read_too(weights: Path) -> None:
    elmo = make(weights)
    ids = batch_to_ids([["cat"]])
    out = elmo(torch.zeros_like(ids))
    assert not out["elmo_representations"][0].any()
    assert not out["mask"].any()
    second = elmo(ids)["elmo_representations"][0]
    elmo.reset_states()
    assert (second - elmo(ids)["elmo_representations"][0]).abs().max() > 1e-3
    assert elmo(batch_to_ids([[]]))["elmo_representations"][0].shape == (1, 0, 12)


def test_keep_sentence_boundaries(weights: Path) -> None:
    native = elmox.Elmo.from_pretrained(weights, device="cpu")
    boundaries = elmox.ElmoEmbedding(native, keep_boundaries=True)([*FIRST, []])
    elmo = make(weights, keep_sentence_boundaries=True, stateful=False)
    out = elmo(batch_to_ids([*FIRST, []]))
    assert torch.equal(out["mask"], boundaries.mask)
    assert out["mask"].sum(1).tolist() == [6, 4, 3, 2]
    assert_close(out["elmo_representations"][0], boundaries.mixes[0])
    stacked = elmo(batch_to_ids(FIRST)[None])
    assert stacked["elmo_representations"][0].shape == (1, 3, 6, 12)


def test_do_layer_norm_takes_one_mean_and_variance_per_layer(weights: Path) -> None:
    native = elmox.Elmo.from_pretrained(weights, device="cpu")
    ragged, _ = native.reader.read(FIRST, native.reader.zero_state(3), choose_layers("all", 3, {}))
    layers = ragged.values
    mean = layers.mean(dim=(1, 2), keepdim=True)
    deviation = layers.var(dim=(1, 2), keepdim=True, correction=0).sqrt()
    mixed = ((layers - mean) / deviation).mean(0)
    out = make(weights, do_layer_norm=True)(batch_to_ids(FIRST))
    rows = torch.split(mixed, ragged.lengths.tolist())
    assert_rows(out["elmo_representations"][0], out["mask"], [row[1:-1] for row in rows])


def test_fixed_mixes(weights: Path) -> None:
    elmo = make(weights, 2, scalar_mix_parameters=TOP_ONLY)
    assert not any(parameter.requires_grad for parameter in elmo.parameters())
    expected = elmox.Elmo.from_pretrained(weights, device="cpu").encode_tokens(FIRST, layers="top")
    out = elmo(batch_to_ids(FIRST))
    for mixed in out["elmo_representations"]:
        assert_rows(mixed, out["mask"], expected)


def test_dropout_of_a_half_in_training_only(weights: Path) -> None:
    options = weights.with_name("options.json")
    elmo = Elmo(options, weights, 2, stateful=False)
    ids = batch_to_ids([list("abcdefgh")] * 8)
    one, two = (mixed.detach() for mixed in elmo(ids)["elmo_representations"])
    assert 0.3 < (one == 0).float().mean() < 0.7
    assert not torch.equal(one, two)
    whole = elmo.eval()(ids)["elmo_representations"][0]
    kept = one != 0
    assert_close(one[kept], 2 * whole[kept])


def test_gradients(weights: Path) -> None:
    frozen, tuned = make(weights, 2), make(weights, 2, requires_grad=True)
    for elmo in (frozen, tuned):
        first, second = elmo(batch_to_ids(FIRST))["elmo_representations"]
        (first.sum() + second.square().sum()).backward()
        assert all(p.grad is not None for p in elmo.scalar_mix.parameters())
    assert all(p.grad is None for p in frozen.bilm.parameters())
    assert all(p.grad is not None and p.grad.any() for p in tuned.bilm.parameters())


def test_representations_may_be_changed_in_place(weights: Path) -> None:
    one, two = make(weights, 2, requires_grad=True)(batch_to_ids(FIRST))["elmo_representations"]
    one *= 2
    (one.sum() + two.sum()).backward()


def test_cached_words_replace_the_character_ids(weights: Path) -> None:
    vocabulary = ["<pad>", *WORDS]
    place = {word: number for number, word in enumerate(vocabulary)}
    elmo, cached = make(weights), make(weights, vocab_to_cache=vocabulary)
    assert list(cached.state_dict()) == list(elmo.state_dict())
    rng = np.random.default_rng(2)
    for num_sentences in (2, 3, 1):
        batch = random_batch(rng, num_sentences)
        ids = batch_to_ids(batch)
        words = torch.zeros(ids.shape[:2], dtype=torch.int64)
        for row, sentence in enumerate(batch):
            words[row, : len(sentence)] = torch.tensor([place[word] for word in sentence])
        expected, out = elmo(ids), cached(words, words)
        assert_close(out["elmo_representations"][0], expected["elmo_representations"][0])
        assert torch.equal(out["mask"], expected["mask"])
    assert cached(None, words[None])["mask"].shape == (1, *words.shape)


def test_unknown_word_number_falls_back_to_the_characters(weights: Path) -> None:
    ids = batch_to_ids(FIRST)
    expected = make(weights)(ids)["elmo_representations"][0]
    for vocabulary in (["<pad>", "the"], []):
        cached = make(weights, vocab_to_cache=vocabulary)
        words = torch.full(ids.shape[:2], 2)
        assert_close(cached(ids, words)["elmo_representations"][0], expected)
        with pytest.raises(ElmoxError, match=r"\(3, 4\)"):
            cached(words, words)


def test_word_numbers_without_cached_words(weights: Path, caplog: pytest.LogCaptureFixture) -> None:
    ids = batch_to_ids(FIRST)
    expected = make(weights)(ids)["elmo_representations"][0]
    out = make(weights)(ids, torch.ones(3, 4, dtype=torch.int64))
    assert_close(out["elmo_representations"][0], expected)
    assert "vocab_to_cache" in caplog.text


def test_token_embedder(weights: Path) -> None:
    options = weights.with_name("options.json")
    ids = batch_to_ids(FIRST)
    plain = ElmoTokenEmbedder(options, weights).eval()
    assert plain.get_output_dim() == 12
    assert_close(plain(ids), make(weights)(ids)["elmo_representations"][0])
    projected = ElmoTokenEmbedder(options, weights, projection_dim=5)
    assert projected.get_output_dim() == 5
    assert projected(ids[None]).shape == (1, 3, 4, 5)


# The embedder


def test_shapes_of_the_embedder(weights: Path) -> None:
    embedder = ElmoEmbedder(None, weights)
    assert embedder.embed_sentence(["the", "cat"]).shape == (3, 2, 12)
    arrays = embedder.embed_batch([["a"], [], ["b", "c"]])
    assert [array.shape for array in arrays] == [(3, 1, 12), (3, 0, 12), (3, 2, 12)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert embedder.embed_batch([]) == []


def test_a_lone_empty_sentence_leaves_the_state_alone(weights: Path) -> None:
    embedder, other = ElmoEmbedder(None, weights), ElmoEmbedder(None, weights)
    assert embedder.embed_sentence([]).shape == (3, 0, 12)
    assert_close(embedder.embed_sentence(["a"]), other.embed_sentence(["a"]), 0)
    embedder.embed_batch([[], ["b"]])
    assert np.abs(embedder.embed_sentence(["a"]) - other.embed_sentence(["a"])).max() > 1e-3


def test_batch_to_embeddings(weights: Path) -> None:
    layers, mask = ElmoEmbedder(None, weights).batch_to_embeddings([*FIRST, []])
    assert layers.shape == (4, 3, 4, 12)
    assert mask.dtype == torch.int64
    assert mask.sum(1).tolist() == [4, 2, 1, 0]
    for sentence, count, expected in zip(
        layers, (4, 2, 1, 0), ElmoEmbedder(None, weights).embed_batch([*FIRST, []]), strict=True
    ):
        assert_close(sentence[:, :count], expected, 0)
        assert not sentence[:, count:].any()


def test_embed_sentences_is_lazy_and_works_in_groups(weights: Path) -> None:
    taken = []

    def sentences() -> Any:
        for number in range(7):
            taken.append(number)
            yield ["cat"] * (number + 1)

    arrays = ElmoEmbedder(None, weights).embed_sentences(sentences(), batch_size=3)
    assert taken == []
    first = next(arrays)
    assert taken == [0, 1, 2]
    everything = [first, *arrays]
    embedder = ElmoEmbedder(None, weights)
    texts = [["cat"] * (number + 1) for number in range(7)]
    expected = [
        array for start in (0, 3, 6) for array in embedder.embed_batch(texts[start : start + 3])
    ]
    for ours, theirs in zip(everything, expected, strict=True):
        assert_close(ours, theirs, 0)
    with pytest.raises(ElmoxError, match="batch_size is 0"):
        next(embedder.embed_sentences([["a"]], batch_size=0))


LINES = "the cat sat .\n  naïve\u00a0天 \nthe cat sat .\n"


@pytest.mark.parametrize("form", ["all", "top", "average"])
def test_embed_file(weights: Path, tmp_path: Path, form: str) -> None:
    source, target = io.StringIO(LINES), tmp_path / "vectors.hdf5"
    target.write_text("what was there before")
    ElmoEmbedder(None, weights).embed_file(source, str(target), form, batch_size=2)
    assert source.closed
    sentences = [line.split() for line in LINES.splitlines()]
    expected = list(ElmoEmbedder(None, weights).embed_sentences(sentences, 2))
    shapes: dict[str, Callable[[Any], Any]] = {
        "all": lambda layers: layers,
        "top": top,
        "average": lambda layers: layers.mean(0),
    }
    with h5py.File(target) as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        for number, layers in enumerate(expected):
            assert file[str(number)].dtype == np.float32
            assert_close(file[str(number)][()], shapes[form](layers), 1e-6)
        index = file["sentence_to_index"]
        assert index.shape == (1,)
        assert json.loads(index[0]) == {"the cat sat .": "2", "naïve\u00a0天": "1"}
    assert list(tmp_path.iterdir()) == [target]


def test_embed_file_without_an_index_and_with_sentence_keys(weights: Path, tmp_path: Path) -> None:
    embedder, target = ElmoEmbedder(None, weights), tmp_path / "vectors.hdf5"
    embedder.embed_file(io.StringIO(LINES), target, forget_sentences=True)
    with h5py.File(target) as file:
        assert sorted(file) == ["0", "1", "2"]
    embedder.embed_file(io.StringIO("the cat\nc/d e\n"), target, use_sentence_keys=True)
    with h5py.File(target) as file:
        assert sorted(file) == ["c", "the cat"]
        assert file["c/d e"].shape == (3, 2, 12)
    embedder.embed_file(io.StringIO(""), target)
    with h5py.File(target) as file:
        assert file["sentence_to_index"][0] == b"{}"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a\n\nb\n \n", {}, r"\[1, 3\]"),
        ("a\nb\na\n", {"use_sentence_keys": True}, "'a' occurs 2 times"),
        ("a\na/b\n", {"use_sentence_keys": True}, "'a/b' cannot be a key"),
        ("a\n", {"output_format": "bottom"}, "output_format='bottom'"),
    ],
)
def test_embed_file_writes_nothing_of_what_it_refuses(
    weights: Path, tmp_path: Path, text: str, arguments: dict[str, Any], message: str
) -> None:
    target = tmp_path / "vectors.hdf5"
    target.write_text("what was there before")
    with pytest.raises(ElmoxError, match=message):
        ElmoEmbedder(None, weights).embed_file(io.StringIO(text), target, **arguments)
    assert target.read_text() == "what was there before"
    assert list(tmp_path.iterdir()) == [target]


# Mistakes


def test_files_that_are_not_given_or_not_local(weights: Path) -> None:
    with pytest.raises(ElmoxError, match="weight_file is missing"):
        ElmoEmbedder()
    with pytest.raises(ElmoxError, match=r"options_file .* is a URL"):
        ElmoEmbedder("https://allennlp.s3.amazonaws.com/options.json", weights)
    with pytest.raises(ElmoxError, match="does not exist"):
        Elmo("options.json", weights, 1)


def test_arguments_that_the_module_refuses(weights: Path) -> None:
    with pytest.raises(ElmoxError, match="module: "):
        Elmo(None, None, 1, module=torch.nn.Identity())
    with pytest.raises(ElmoxError, match="vocab_to_cache"):
        make(weights, requires_grad=True, vocab_to_cache=["<pad>", "a"])
    with pytest.raises(ElmoxError, match="2 mix weights for 3 layers"):
        make(weights, scalar_mix_parameters=[0.0, 1.0])
    with pytest.raises(ElmoxError, match="at least 1"):
        make(weights, 0)


def test_inputs_that_the_module_refuses(weights: Path) -> None:
    elmo = make(weights)
    ids = batch_to_ids([["a", "b"]])
    gap = torch.cat([ids, torch.zeros_like(ids), ids], dim=1)
    for inputs, message in (
        (None, "inputs: None"),
        (ids[0], r"\(2, 50\)"),
        (ids.float(), "float32"),
        (ids + 1, "ids from 99 to 262"),
        (ids - 200, "expected 0 to 261"),
        (gap, "padding before a token in sentence 0"),
        (batch_to_ids([]), "no sentence"),
    ):
        with pytest.raises(ElmoxError, match=message):
            elmo(inputs)


def test_models_that_read_other_ids(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = write_word_model(tmp_path / "words", random_options(), rng)
    langs = write_many_langs(tmp_path / "langs", "char", rng)
    for path in (words, langs):
        with pytest.raises(ElmoxError, match=r"elmox\.ElmoEmbedding"):
            Elmo(None, path, 1)
        assert ElmoEmbedder(None, path).embed_sentence([VOCABULARY[0], "cat"]).shape[1] == 2


# Side by side with AllenNLP


@needs_allennlp
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"requires_grad": True},
        {"do_layer_norm": True},
        {"keep_sentence_boundaries": True},
        {"do_layer_norm": True, "keep_sentence_boundaries": True},
        {"scalar_mix_parameters": [0.3, -1.0, 2.0]},
        {"vocab_to_cache": ["<pad>", *WORDS]},
    ],
    ids=lambda arguments: "-".join(arguments) or "plain",
)
def test_side_by_side(weights: Path, arguments: dict[str, Any]) -> None:
    their_elmo, their_ids = load_allennlp()
    options = str(weights.with_name("options.json"))
    theirs = their_elmo(options, str(weights), 2, dropout=0.0, **arguments)
    ours = make(weights, 2, **arguments)
    rng = np.random.default_rng(3)
    for num_sentences in (2, 4, 1, 3, 5, 5):
        batch = random_batch(rng, num_sentences)
        batch[0] = batch[0] if num_sentences < 4 else []
        ids = batch_to_ids(batch)
        assert torch.equal(ids, their_ids(batch))
        words = torch.zeros(ids.shape[:2], dtype=torch.int64)
        for row, sentence in enumerate(batch):
            words[row, : len(sentence)] = torch.tensor([1 + WORDS.index(word) for word in sentence])
        inputs = (ids, words) if "vocab_to_cache" in arguments else (ids,)
        out, expected = ours(*inputs), theirs(*inputs)
        assert torch.equal(out["mask"], expected["mask"])
        for a, b in zip(out["elmo_representations"], expected["elmo_representations"], strict=True):
            assert a.shape == b.shape
            assert_close(a, b * expected["mask"][..., None])


@needs_allennlp
def test_embedder_side_by_side(weights: Path) -> None:
    their_elmo, their_ids = load_allennlp()
    theirs: Any = their_elmo(str(weights.with_name("options.json")), str(weights), 1)._elmo_lstm
    ours = ElmoEmbedder(None, weights)
    rng = np.random.default_rng(4)
    for num_sentences in (2, 4, 1, 3, 5, 5):
        batch = random_batch(rng, num_sentences)
        layers = torch.stack(theirs(their_ids(batch))["activations"], dim=1)
        for vectors, sentence, expected in zip(ours.embed_batch(batch), batch, layers, strict=True):
            assert_close(vectors, expected[:, 1 : 1 + len(sentence)])
