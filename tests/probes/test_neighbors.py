"""Neighbors in context and without it, against a search over all vectors at once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.probes import neighbors as neighbors
from elmox.probes.neighbors import _Nearest, find_neighbors, find_word

WORDS = ["the", "play", "Play", "PLAY", "plays", "actor", "left", "wrote", ".", "naïve", "天"]
SENTENCE = ["the", "actor", "left", "the", "play", "."]
POSITION = 4
CHUNK_TOKENS = 40


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


@pytest.fixture(scope="module")
def text() -> list[list[str]]:
    """Random sentences, some of them twice, some empty, and the searched one."""
    rng = np.random.default_rng(0)
    drawn = [rng.choice(WORDS, size=rng.integers(0, 9)).tolist() for _ in range(60)]
    return [*drawn, SENTENCE, *drawn[10:30], []]


@pytest.fixture
def small_chunks(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sentences at a time."""
    monkeypatch.setattr(neighbors, "CHUNK_BYTES", {"cpu": 4 * elmo.dim * CHUNK_TOKENS})


def cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("layer", ["top", "average", 1])
@pytest.mark.parametrize("same_word", [False, True])
def test_in_context(elmo: Elmo, text: list[list[str]], layer: str | int, same_word: bool) -> None:
    result = find_neighbors(elmo, SENTENCE, POSITION, text, layers=layer, k=7, same_word=same_word)
    query = elmo.encode_tokens([SENTENCE], layers=layer)[0][POSITION]
    expected: dict[tuple[str, ...], dict[int, float]] = {}
    for sentence, vectors in zip(text, elmo.encode_tokens(text, layers=layer), strict=True):
        positions = [
            i for i, word in enumerate(sentence) if not same_word or word.lower() == "play"
        ]
        if positions and sentence != SENTENCE:
            expected[tuple(sentence)] = {i: cosine(vectors[i], query) for i in positions}
    best = sorted((max(values.values()) for values in expected.values()), reverse=True)[:7]
    assert [near.similarity for near in result.in_context] == pytest.approx(best, abs=1e-5)
    assert len({near.sentence for near in result.in_context}) == 7
    for near in result.in_context:
        values = expected[near.sentence]
        assert near.similarity == pytest.approx(values[near.position], abs=1e-5)
        assert near.similarity == pytest.approx(max(values.values()), abs=1e-5)
        assert near.word == near.sentence[near.position]
    assert result.num_sentences == sum(map(bool, text))
    assert result.num_tokens == sum(map(len, text))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("k", [3, 99])
def test_without_context(elmo: Elmo, text: list[list[str]], k: int) -> None:
    vectors = {word: elmo.encode_tokens([[word]], layers=0)[0][0] for word in WORDS}
    cosines = {word: cosine(vectors[word], vectors["play"]) for word in WORDS if word != "play"}
    expected = sorted(cosines, key=lambda word: -cosines[word])[:k]
    result = find_neighbors(elmo, SENTENCE, POSITION, text, k=k, same_word=True).context_free
    assert [near.word for near in result] == expected
    assert [near.similarity for near in result] == pytest.approx(
        [cosines[word] for word in expected], abs=1e-5
    )


def test_the_sentence_is_not_its_own_neighbor(elmo: Elmo) -> None:
    longer = [*SENTENCE, "and", "left"]
    result = find_neighbors(elmo, SENTENCE, POSITION, [SENTENCE, longer, SENTENCE], same_word=True)
    assert [(near.sentence, near.position) for near in result.in_context] == [(tuple(longer), 4)]
    assert find_neighbors(elmo, SENTENCE, POSITION, [SENTENCE]).in_context == []


class RecordingElmo(Elmo):
    """An Elmo that records the batches it encodes."""

    batches: list[list[Sequence[str]]]

    def encode_tokens(self, sentences: Any, **options: Any) -> Any:
        self.batches.append(list(sentences))
        return super().encode_tokens(sentences, **options)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("same_word", [False, True])
def test_a_chunk_at_a_time(elmo: Elmo, text: list[list[str]], same_word: bool) -> None:
    """A chunk is embedded before more is read, as far as it can contain a neighbor."""
    recording = RecordingElmo(elmo.checkpoint())
    recording.batches = []

    def twice() -> Iterator[list[str]]:
        num_read = 0
        for sentence in [*text, *text]:
            yield sentence
            num_read += len(sentence)
            assert len(recording.batches) >= num_read // CHUNK_TOKENS

    result = find_neighbors(recording, SENTENCE, POSITION, twice(), same_word=same_word)
    once = find_neighbors(elmo, SENTENCE, POSITION, text, same_word=same_word)
    assert {near.sentence for near in result.in_context} == {
        near.sentence for near in once.in_context
    }
    assert result.num_tokens == 2 * once.num_tokens
    for sentences in recording.batches:
        assert sum(map(len, sentences)) <= CHUNK_TOKENS
        for sentence in sentences:
            assert not same_word or "play" in map(str.lower, sentence)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=8),
    st.integers(1, 6),
    st.lists(st.integers(0, 9), min_size=31, max_size=31),
)
def test_the_nearest_are_kept(chunks: list[list[int]], k: int, similarity: list[int]) -> None:
    nearest = _Nearest[int](k, key=lambda number: number)
    for chunk in chunks:
        nearest.add(chunk, np.array([similarity[number] for number in chunk], np.float32))
    added = {number for chunk in chunks for number in chunk}
    best = nearest.best()
    assert [value for value, _ in best] == sorted(
        (similarity[number] for number in added), reverse=True
    )[:k]
    assert len({number for _, number in best}) == len(best)
    assert all(value == similarity[number] for value, number in best)


def test_find_word() -> None:
    assert find_word(SENTENCE, "play") == 4
    assert find_word(SENTENCE, "the") == 0
    assert find_word(SENTENCE, "the", 2) == 3
    with pytest.raises(ElmoxError, match=r"'Play' is not a token.*: the actor left the play \."):
        find_word(SENTENCE, "Play")
    with pytest.raises(ElmoxError, match="occurrence=3 of 'the': expected 1 to 2"):
        find_word(SENTENCE, "the", 3)


def test_bad_input(elmo: Elmo) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"k": 0}, "k is 0, expected at least 1"),
        ({"layers": "all"}, "layers='all': expected one"),
        ({"layers": [0, 1]}, r"layers=\[0, 1\]: expected one"),
        ({"layers": 7}, "layer 7 does not exist"),
    ]
    for options, message in cases:
        with pytest.raises(ElmoxError, match=message):
            find_neighbors(elmo, SENTENCE, POSITION, [["a"]], **options)
    with pytest.raises(ElmoxError, match="no words"):
        find_neighbors(elmo, SENTENCE, POSITION, [[], []])
