"""Weighted pooling: against the formulas in NumPy, in any batch, stored with the model."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from elmox import Elmo, ElmoxError
from elmox.inference.outputs import FloatArray

A = 0.05
TEXT = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["A", "dog", "saw", "the", "cat", "."],
    ["It", "rains", "."],
    ["She", "bought", "the", "old", "house", "near", "the", "sea", "."],
    ["They", "all", "know", "."],
]
SENTENCES = [*TEXT[:2], [], ["An", "unseen", "sentence"]]


@pytest.fixture
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


def expected(elmo: Elmo, sentences: list[list[str]], num_directions: int) -> FloatArray:
    """All layers, (B, J, D), computed from token vectors."""
    counts = Counter(word for sentence in TEXT for word in sentence)
    share = {word: count / counts.total() for word, count in counts.items()}

    def pooled(sentence: list[str]) -> FloatArray:
        tokens = elmo.encode_tokens([sentence], layers="all")[0].astype(np.float64)
        weights = np.array([A / (A + share.get(word, 0)) for word in sentence])
        result: FloatArray = (tokens * weights[:, None]).sum(1) / weights.sum()
        return result

    text = np.stack([pooled(sentence) for sentence in TEXT])
    result = np.zeros((len(sentences), *text.shape[1:]))
    for layer in range(text.shape[1]):
        mean = text[:, layer].mean(0)
        centered = text[:, layer] - mean
        axes = np.linalg.svd(centered, full_matrices=False)[2][:num_directions]
        left = centered - centered @ axes.T @ axes
        scale = np.sqrt(np.square(left).sum(1).mean())
        for row, sentence in enumerate(sentences):
            if sentence:
                vector = pooled(sentence)[layer] - mean
                result[row, layer] = (vector - vector @ axes.T @ axes) / scale
    return result.astype(np.float32)


@pytest.mark.parametrize("num_directions", [0, 1, 2])
def test_equal_to_the_formulas(elmo: Elmo, num_directions: int) -> None:
    elmo.fit_pooling(TEXT, smoothing=A, num_directions=num_directions)
    layers = expected(elmo, SENTENCES, num_directions)
    vectors = elmo.encode(SENTENCES, layers="all", pooling="weighted")
    assert vectors.dtype == np.float32
    assert np.abs(layers[[0, 1, 3]]).max() > 0.1
    np.testing.assert_allclose(vectors, layers, rtol=0, atol=2e-3)  # weights have 4 digits
    for choice, combined in (
        ("average", layers.mean(1)),
        (1, layers[:, 1]),
        ([2, 0], layers[:, [2, 0]]),
    ):
        actual = elmo.encode(SENTENCES, layers=choice, pooling="weighted")
        np.testing.assert_allclose(actual, combined, rtol=0, atol=2e-3)


def test_alone_in_any_batch_and_as_a_tensor(elmo: Elmo) -> None:
    elmo.fit_pooling(TEXT, smoothing=A)
    together = elmo.encode(SENTENCES, pooling="weighted")
    alone = np.stack([elmo.encode([each], pooling="weighted")[0] for each in SENTENCES])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-5)
    small = elmo.encode(SENTENCES, pooling="weighted", batch_size=2)
    np.testing.assert_allclose(small, together, rtol=0, atol=1e-5)
    tensor = elmo.encode(SENTENCES, pooling="weighted", convert_to_tensor=True)
    np.testing.assert_allclose(tensor.numpy(), together, rtol=0, atol=1e-5)
    assert not together[2].any()  # the empty sentence
    lengths = np.linalg.norm(
        elmo.encode(SENTENCES, pooling="weighted", normalize_embeddings=True), axis=1
    )
    np.testing.assert_allclose(lengths, [1, 1, 0, 1], atol=1e-6)
    assert elmo.encode("The cat", pooling="weighted").shape == (elmo.dim,)
    assert elmo.encode([], layers="all", pooling="weighted").shape == (0, 3, elmo.dim)
    stateful = elmo.stateful().encode(SENTENCES, pooling="weighted")
    np.testing.assert_allclose(stateful, together, rtol=0, atol=1e-5)


def test_other_poolings_are_unchanged(elmo: Elmo) -> None:
    before = [elmo.encode(SENTENCES, pooling=pooling) for pooling in ("mean", "max")]
    digest = elmo.digest()
    elmo.fit_pooling(TEXT)
    np.testing.assert_array_equal(elmo.encode(SENTENCES), before[0])
    np.testing.assert_array_equal(elmo.encode(SENTENCES, pooling="max"), before[1])
    assert elmo.digest() == digest


@pytest.mark.parametrize("dtype", [None, "float16", "int8"])
def test_stored_with_the_model(elmo: Elmo, dtype: str | None, tmp_path: Path) -> None:
    elmo.fit_pooling(TEXT, smoothing=A, num_directions=2)
    elmo.save_pretrained(tmp_path / "model", dtype=dtype)
    again = Elmo.from_pretrained(tmp_path / "model")
    assert again.pooling is not None
    assert elmo.pooling is not None
    assert again.pooling.weights == elmo.pooling.weights
    for name in ("means", "directions", "scales"):
        assert torch.equal(getattr(again.pooling, name), getattr(elmo.pooling, name))
    if dtype is None:
        vectors = again.encode(SENTENCES, pooling="weighted")
        expected = elmo.encode(SENTENCES, pooling="weighted")
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)


def test_half_precision(elmo: Elmo) -> None:
    elmo.fit_pooling(TEXT, smoothing=A)
    full = elmo.encode(SENTENCES, pooling="weighted")
    elmo.to(dtype="bfloat16")
    half = elmo.encode(SENTENCES, pooling="weighted", convert_to_tensor=True)
    assert half.dtype == torch.bfloat16
    assert np.abs(half.float().numpy() - full).max() < 0.2


def test_only_frequent_words_are_stored(elmo: Elmo) -> None:
    elmo.fit_pooling([*TEXT, ["rare"], *[["the", "cat", "the"]] * 200], smoothing=1e-3)
    assert elmo.pooling is not None
    weights = elmo.pooling.weights
    assert list(weights)[:2] == ["the", "cat"]
    assert weights["the"] < 0.01
    elmo.fit_pooling([*TEXT, ["rare"], *[["the", "cat"]] * 200], smoothing=1.0)
    assert "rare" not in elmo.pooling.weights


def test_errors_name_what_to_do(elmo: Elmo) -> None:
    with pytest.raises(ElmoxError, match=r"no weighted pooling.*elmo\.fit_pooling"):
        elmo.encode(SENTENCES, pooling="weighted")
    for arguments, message in (
        ((TEXT[:2],), "2 sentences with words given, expected at least 3"),
        (([["a"], ["a"], ["a"]],), "too much alike"),
    ):
        with pytest.raises(ElmoxError, match=message):
            elmo.fit_pooling(*arguments)
    with pytest.raises(ElmoxError, match="smoothing=0"):
        elmo.fit_pooling(TEXT, smoothing=0)
    with pytest.raises(ElmoxError, match="num_directions is -1, expected at least 0"):
        elmo.fit_pooling(TEXT, num_directions=-1)
    with pytest.raises(ElmoxError, match="expected fewer than"):
        elmo.fit_pooling(TEXT, num_directions=elmo.dim)
    assert elmo.pooling is None
