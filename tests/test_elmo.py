"""`Elmo`: inputs, outputs, their order, start states, errors."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentences import batches

from elmox import Elmo, ElmoxError
from elmox.inference import encode as batched

SENTENCES = [["Live", "in", "the", "present"], [], ["I", "will", "buy"], ["x"], ["Live", "in"]]


@pytest.fixture
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


def equal(ours: Any, expected: Any, tolerance: float = 2e-6) -> None:
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tolerance)


def test_shapes_of_every_choice(elmo: Elmo) -> None:
    d = elmo.dim
    assert (elmo.num_layers, d) == (3, 12)
    for layers, shape in (
        ("average", (4, d)), ("top", (4, d)), (1, (4, d)), ("all", (3, 4, d)), ([0, 2], (2, 4, d)),
    ):  # fmt: skip
        vectors = elmo.encode_tokens(SENTENCES, layers=layers)
        assert vectors[0].shape == shape
        assert vectors[1].shape == (*shape[:-2], 0, d)
        assert vectors[0].dtype == np.float32


def test_choices_agree_with_all_layers(elmo: Elmo) -> None:
    everything = elmo.encode_tokens(SENTENCES, layers="all")
    equal(elmo.encode_tokens(SENTENCES), [each.mean(0) for each in everything])
    equal(elmo.encode_tokens(SENTENCES, layers="top"), [each[-1] for each in everything])
    equal(elmo.encode_tokens(SENTENCES, layers=[2, 0]), [each[[2, 0]] for each in everything])
    half = elmo.dim // 2
    assert (everything[0][0][:, :half] == everything[0][0][:, half:]).all()


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sentences=batches(max_sentences=6), data=st.data())
def test_same_vector_alone_in_any_batch_in_any_order(
    elmo: Elmo, sentences: list[list[str]], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        elmo.warm_up([["some", "text"]])
    order = data.draw(st.permutations(range(len(sentences))))
    together = elmo.encode_tokens(sentences, layers="all")
    shuffled = elmo.encode_tokens(
        [sentences[i] for i in order],
        layers="all",
        batch_size=data.draw(st.sampled_from((None, 1, 2))),
        batch_tokens=data.draw(st.sampled_from((None, 1, 9))),
    )
    equal([shuffled[order.index(i)] for i in range(len(order))], together)
    equal([elmo.encode_tokens([s], layers="all")[0] for s in sentences], together)


def test_strings_go_through_the_models_tokenizer(elmo: Elmo) -> None:
    text = "I don't live in the U.S. today."
    tokens = elmo.tokenize(text)
    assert tokens[:3] == ["I", "do", "n't"]
    equal(elmo.encode_tokens([text]), elmo.encode_tokens([tokens]))
    equal([elmo.encode_tokens(text)], elmo.encode_tokens([tokens]))


def test_pooled_vectors(elmo: Elmo) -> None:
    tokens = elmo.encode_tokens(SENTENCES)
    pooled = elmo.encode(SENTENCES)
    assert pooled.shape == (5, elmo.dim)
    equal(pooled[[0, 2]], [tokens[0].mean(0), tokens[2].mean(0)])
    assert (pooled[1] == 0).all()
    equal(elmo.encode(SENTENCES, pooling="max")[:1], [tokens[0].max(0)])
    assert elmo.encode("a string").shape == (elmo.dim,)
    assert elmo.encode(SENTENCES, layers="all").shape == (5, 3, elmo.dim)
    assert elmo.encode([]).shape == (0, elmo.dim)
    assert elmo.encode_tokens([]) == []
    tensor = elmo.encode(SENTENCES, pooling="max", convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    equal(tensor, elmo.encode(SENTENCES, pooling="max"))


def test_mixes(elmo: Elmo, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="set_mix"):
        elmo.encode_tokens(SENTENCES, layers="mix")
    elmo.set_mix([0.0, 1.0, 2.0], gamma=0.5)
    weights = 0.5 * np.exp([0.0, 1.0, 2.0]) / np.exp([0.0, 1.0, 2.0]).sum()
    everything = elmo.encode_tokens(SENTENCES, layers="all")
    expected = [np.einsum("j,jtd->td", weights, each) for each in everything]
    equal(elmo.encode_tokens(SENTENCES, layers="mix"), expected)
    elmo.set_mix([9.0, 0.0, 0.0], name="lower")
    with pytest.raises(ElmoxError, match="mix:NAME"):
        elmo.encode_tokens(SENTENCES, layers="mix")
    elmo.save_pretrained(tmp_path / "model")
    again = Elmo.from_pretrained(tmp_path / "model")
    equal(again.encode_tokens(SENTENCES, layers="mix:default"), expected)
    with pytest.raises(ElmoxError, match="2 mix weights for 3 layers"):
        elmo.set_mix([1.0, 2.0])


def test_warm_state_is_stored_with_the_model(elmo: Elmo, tmp_path: Path) -> None:
    cold = elmo.encode_tokens(SENTENCES)
    with pytest.raises(ElmoxError, match="warm_up"):
        elmo.state = "warm"
    elmo.warm_up([["some", "typical", "text"], ["and", "more"]])
    warm = elmo.encode_tokens(SENTENCES)
    assert np.abs(warm[0] - cold[0]).max() > 1e-3
    elmo.save_pretrained(tmp_path / "model")
    equal(Elmo.from_pretrained(tmp_path / "model", state="warm").encode_tokens(SENTENCES), warm)
    equal(Elmo.from_pretrained(tmp_path / "model").encode_tokens(SENTENCES), cold)


def test_warm_state_is_where_carried_state_would_be(elmo: Elmo) -> None:
    text = [["some", "typical", "text"], ["and", "more"]]
    carried = elmo.stateful()
    for sentence in text:
        carried.encode_tokens([sentence])
    expected = carried.encode_tokens([["now"]])
    elmo.warm_up(text)
    equal(elmo.encode_tokens([["now"]]), expected)


def test_carried_state_differs_and_can_be_forgotten(elmo: Elmo) -> None:
    carried = elmo.stateful()
    first, second = (carried.encode_tokens(SENTENCES)[0] for _ in range(2))
    equal([first], elmo.encode_tokens(SENTENCES)[:1])
    assert np.abs(second - first).max() > 1e-3
    carried.reset()
    equal([carried.encode_tokens(SENTENCES)[0]], [first])


def test_carried_state_has_the_other_ways_to_encode(elmo: Elmo) -> None:
    carried = elmo.stateful()
    equal(carried.encode(SENTENCES), elmo.encode(SENTENCES))
    assert repr(carried).endswith("state='zero'), 5 rows carried)")
    assert np.abs(carried.encode(SENTENCES)[0] - elmo.encode(SENTENCES)[0]).max() > 1e-3
    elmo.set_mix([0.0, 1.0, 2.0])
    carried.reset()
    mixed = carried.encode_tokens(SENTENCES[0:1], layers="mix", normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(mixed[0], axis=-1), 1, atol=1e-5)


def test_running_out_of_memory_halves_the_batch(
    elmo: Elmo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that can hold only so many tokens: the real one is in test_cuda.py."""
    sentences = [[f"w{i}"] * (1 + i % 7) for i in range(40)]
    expected = elmo.encode_tokens(sentences, layers="all")
    read, seen = elmo.reader.read, []

    def limited(batch: Any, *args: Any) -> Any:
        tokens = sum(map(len, batch)) + 2 * len(batch)
        seen.append(tokens)
        if tokens > 25:
            raise torch.OutOfMemoryError("no more memory")
        return read(batch, *args)

    monkeypatch.setattr(elmo.reader, "read", limited)
    equal(elmo.encode_tokens(sentences, layers="all"), expected)
    assert max(seen) > 25
    # Once a size fits it is kept: a few failures, not one per batch.
    assert sum(tokens > 25 for tokens in seen) <= 5
    equal(elmo.stateful().encode_tokens(sentences, layers="all"), expected)


def test_memory_for_nothing_is_an_error(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise torch.OutOfMemoryError("no more memory")

    monkeypatch.setattr(elmo.reader, "read", never)
    with pytest.raises(ElmoxError, match="no memory"):
        elmo.encode_tokens(SENTENCES)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 5e-2), ("float16", 5e-3)])
def test_low_precision(tiny: Path, elmo: Elmo, dtype: str, tolerance: float) -> None:
    low = Elmo.from_pretrained(tiny, dtype=dtype)
    vectors = low.encode_tokens(SENTENCES)
    assert vectors[0].dtype == np.float32
    equal(vectors, elmo.encode_tokens(SENTENCES), tolerance)
    tensor = low.encode_tokens(SENTENCES, convert_to_tensor=True)[0]
    assert tensor.dtype == low.dtype


def test_long_sentences_among_short_ones(elmo: Elmo) -> None:
    sentences = [["a", "b"], [f"w{i % 50}" for i in range(500)], ["c"]]
    expected = [elmo.encode_tokens([s], layers="all")[0] for s in sentences]
    equal(elmo.encode_tokens(sentences, layers="all", batch_tokens=64), expected)


def test_many_threads_get_the_same_vectors(elmo: Elmo) -> None:
    expected = elmo.encode_tokens(SENTENCES, layers="all")
    results: list[Any] = [None] * 4

    def work(number: int) -> None:
        results[number] = elmo.encode_tokens(SENTENCES * 3, layers="all")[:5]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for vectors in results:
        equal(vectors, expected)


def test_progress_bar_is_on_stderr(elmo: Elmo, capsys: pytest.CaptureFixture[str]) -> None:
    elmo.encode_tokens(SENTENCES, show_progress_bar=True)
    shown = capsys.readouterr()
    assert "18.0/18.0" in shown.err  # tokens, the boundaries of four sentences included
    assert shown.out == ""
    elmo.encode_tokens(SENTENCES)
    assert capsys.readouterr().err == ""


def test_generators_arrays_and_rows_in_errors(elmo: Elmo) -> None:
    texts = ["Live in the present.", "I will buy it."]
    expected = elmo.encode(texts)
    equal(elmo.encode(text for text in texts), expected)
    equal(elmo.encode(np.array(texts)), expected)
    with pytest.raises(ElmoxError, match=r"sentence 1 is None \(NoneType\)"):
        elmo.encode(["fine", None])  # type: ignore[list-item]
    with pytest.raises(ElmoxError, match="sentences is None"):
        elmo.encode_tokens(None)  # type: ignore[call-overload]
    with pytest.warns(UserWarning, match="2 sentences of one word each"):
        elmo.encode_tokens(["I", "will"])


def test_normalized_vectors_and_similarity(elmo: Elmo) -> None:
    texts = ["Live in the present.", "I will buy it.", ""]
    plain, unit = elmo.encode(texts), elmo.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), [1, 1, 0], atol=1e-5)
    np.testing.assert_allclose(elmo.similarity(plain, plain), unit @ unit.T, atol=1e-5)
    tokens = elmo.encode_tokens(texts[0], normalize_embeddings=True, convert_to_numpy=False)
    assert isinstance(tokens, torch.Tensor)
    torch.testing.assert_close(tokens.norm(dim=-1), torch.ones(5))


def test_repr_describes_the_model(elmo: Elmo) -> None:
    assert "weights.hdf5', 3 layers of dim 12, 2 x 10 cells, device='cpu'" in repr(elmo)


@pytest.mark.parametrize("device", ["meta", "cuda:99", "nonsense"])
def test_a_bad_device_leaves_the_model_as_it_is(elmo: Elmo, device: str) -> None:
    expected = elmo.encode("Live in the present.")
    with pytest.raises(ElmoxError, match=f"device='{device}'"):
        elmo.encode("Live in the present.", device=device)
    assert elmo.device.type == "cpu"
    equal(elmo.encode("Live in the present."), expected)


def test_budgets_exist_for_every_device() -> None:
    assert set(batched.BATCH_TOKENS) == {"cpu", "cuda"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "bottom"}, "layers='bottom': expected average"),
        ({"layers": 3}, "layers 0 to 2"),
        ({"layers": [0, -4]}, "layer -4 does not exist"),
        ({"layers": []}, "at least one index"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_tokens": -1}, "batch_tokens is -1"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_wrong_arguments(elmo: Elmo, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        elmo.encode_tokens(SENTENCES, **arguments)


def test_wrong_sentences_and_settings(elmo: Elmo, tiny: Path) -> None:
    with pytest.raises(ElmoxError, match="sentence 1 has the token 3"):
        elmo.encode_tokens([["a"], ["b", 3]])  # type: ignore[list-item]
    with pytest.raises(ElmoxError, match="pooling='median'"):
        elmo.encode(SENTENCES, pooling="median")  # type: ignore[call-overload]
    with pytest.raises(ElmoxError, match="at least one sentence"):
        elmo.warm_up([])
    with pytest.raises(ElmoxError, match="expected 'zero' or 'warm'"):
        Elmo.from_pretrained(tiny, state="cold")  # type: ignore[arg-type]
    with pytest.raises(ElmoxError, match="dtype='int4'"):
        Elmo.from_pretrained(tiny, dtype="int4")
