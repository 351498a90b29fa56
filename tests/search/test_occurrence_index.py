"""An index against the vectors of `Elmo.encode_tokens`, compared one by one."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from compressed import COMPRESS

from elmox import Elmo, ElmoxError, OccurrenceIndex
from elmox.errors import ArgumentError
from elmox.search.build import build_index
from elmox.search.uses import Match
from elmox.text.offsets import token_offsets

LINES = [
    "The bank of the river was steep. A bank lends money!",
    "",
    "He sat on the bank of the Seine — naïve, like a café.",
    "  The Bank opened; the bank closed.",
    "A 😀 bank holiday was announced. The river rose.",
]


@pytest.fixture(scope="module")
def elmo(tiny: Path) -> Elmo:
    return Elmo.from_pretrained(tiny)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


@pytest.fixture
def index(elmo: Elmo, text: Path, tmp_path: Path) -> OccurrenceIndex:
    return OccurrenceIndex.build(elmo, text, tmp_path / "text.index", min_count=1)


def unit(vectors: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled


def assert_same(matches: list[Match], expected: list[Match]) -> None:
    """Compare matches; similarities may differ in their last bits."""
    assert [match.use for match in matches] == [match.use for match in expected]
    for match, other in zip(matches, expected, strict=True):
        assert match.similarity == pytest.approx(other.similarity, abs=1e-5)


def expected_uses(elmo: Elmo, word: str) -> list[tuple[int, str, int, np.ndarray]]:
    """Line from 1, text of the sentence, position and vector of each use of a word."""
    uses = []
    for number, line in enumerate(LINES, start=1):
        for sentence in elmo.split(line):
            (vectors,) = elmo.encode_tokens([sentence.tokens], layers="top")
            for position, token in enumerate(sentence.tokens):
                if token.casefold() == word:
                    uses.append((number, sentence.text, position, vectors[position]))
    return uses


def test_every_use_is_stored_with_its_place_and_vector(elmo: Elmo, index: OccurrenceIndex) -> None:
    for word in ("bank", "river", "café", "announced"):
        expected = expected_uses(elmo, word)
        uses = index.uses(word)
        assert len(uses) == len(expected) == index.count(word) > 0
        for use, (line, sentence, position, _) in zip(uses, expected, strict=True):
            assert (use.line, use.sentence, use.token, use.word) == (line, sentence, position, word)
            assert use.sentence[use.start : use.end].casefold() == word
            width = use.end - use.start
            assert LINES[use.line - 1][use.offset : use.offset + width].casefold() == word
            tokens = elmo.tokenize(sentence)
            assert (use.start, use.end) == token_offsets(sentence, tokens)[position]
        cosines = (index.vectors(word) * unit(np.stack([v for *_, v in expected]))).sum(axis=1)
        assert cosines.min() > 0.999
        np.testing.assert_allclose(np.linalg.norm(index.vectors(word), axis=1), 1, atol=1e-5)


def test_content_words_are_chosen(index: OccurrenceIndex) -> None:
    assert {"bank", "river", "café", "naïve", "steep"} <= set(index.words)
    assert not {"the", "of", "was", ".", "—", "😀", "a"} & set(index.words)
    assert "BANK" in index
    assert "the" not in index
    assert len(index) == sum(map(index.count, index.words))
    assert index.words == sorted(index.words)


def test_search_is_exact(elmo: Elmo, index: OccurrenceIndex) -> None:
    tokens = ["The", "bank", "of", "a", "river"]
    query = unit(elmo.encode_tokens([tokens], layers="top")[0][1])
    similarity: dict[str, float] = {}  # the nearest use of each sentence
    for _, sentence, _, vector in expected_uses(elmo, "bank"):
        similarity[sentence] = max(similarity.get(sentence, -1), float(unit(vector) @ query))
    matches = index.search("The **bank** of a river")
    assert [match.use.sentence for match in matches] == sorted(
        similarity, key=similarity.__getitem__
    )[::-1]
    for match in matches:
        assert match.similarity == pytest.approx(similarity[match.use.sentence], abs=0.005)
    assert_same(index.search(tokens, position=1), matches)
    assert_same(index.search("The bank of a river", word="bank"), matches)
    assert index.search("The **Bank** of a river", top_k=2)[0].use.word == "bank"
    assert len(index.search("The **bank** of a river", top_k=2)) == 2


def test_the_query_and_repeated_sentences_are_left_out(elmo: Elmo, tmp_path: Path) -> None:
    sentences = ["A bank lends money."] * 3 + ["The bank is steep."]
    index = OccurrenceIndex.build(elmo, sentences, tmp_path / "i", min_count=1)
    matches = index.search("A **bank** lends money.")
    assert [match.use.sentence for match in matches] == ["The bank is steep."]
    assert len(index.search("My **bank**")) == 2


def test_words_and_counts(elmo: Elmo, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "few.index"
    index = OccurrenceIndex.build(elmo, text, path, words=["BANK", "the", "gone"], layers="average")
    assert index.words == ["bank", "the"]
    assert index.layers == "average"
    fewer = OccurrenceIndex.build(elmo, text, path, words=["bank"], max_per_word=2, force=True)
    all_uses = index.uses("bank")
    assert [use in all_uses for use in fewer.uses("bank")] == [True, True]
    assert fewer.uses("bank")[-1].line > fewer.uses("bank")[0].line
    frequent = OccurrenceIndex.build(elmo, text, tmp_path / "frequent", min_count=3)
    assert frequent.words == ["bank"]
    german = OccurrenceIndex.build(elmo, text, tmp_path / "all", min_count=1, stop_words=["bank"])
    assert "the" in german
    assert "bank" not in german


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_compressed_text(
    suffix: str, elmo: Elmo, text: Path, index: OccurrenceIndex, tmp_path: Path
) -> None:
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](text.read_bytes()))
    again = OccurrenceIndex.build(elmo, path, tmp_path / "again", min_count=1)
    assert [again.uses(word) for word in again.words] == [index.uses(word) for word in index.words]


def test_json_lines_and_tokenized_text(elmo: Elmo, tmp_path: Path) -> None:
    lines = [{"tokens": ["The", "bank", "é", "bank"]}, {"text": "It rains. A bank, a river."}]
    path = tmp_path / "text.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    uses = OccurrenceIndex.build(elmo, path, tmp_path / "a", min_count=1).uses("bank")
    places = [(use.line, use.token, use.sentence[use.start : use.end], use.offset) for use in uses]
    assert places == [(1, 1, "bank", 4), (1, 3, "bank", 11), (2, 1, "bank", 12)]
    assert [use.sentence for use in uses] == ["The bank é bank"] * 2 + ["A bank, a river."]
    (tmp_path / "tok.txt").write_text("the  bank . a bank\n")
    index = OccurrenceIndex.build(
        elmo, tmp_path / "tok.txt", tmp_path / "b", min_count=1, tokenized=True
    )
    assert [use.sentence for use in index.uses("bank")] == ["the  bank . a bank"] * 2


def test_buffers_change_nothing(
    elmo: Elmo, text: Path, index: OccurrenceIndex, tmp_path: Path
) -> None:
    build_index(elmo, text, tmp_path / "b", min_count=1, buffer_bytes=1)
    first, second = (tmp_path / "text.index").read_bytes(), (tmp_path / "b").read_bytes()
    assert first == second


def test_a_finished_index_is_recognized(elmo: Elmo, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.index"
    assert not build_index(elmo, text, path, min_count=1).was_complete
    before = path.stat().st_mtime_ns
    assert build_index(elmo, text, path, min_count=1).was_complete
    assert path.stat().st_mtime_ns == before
    with pytest.raises(ElmoxError, match="exists already"):
        build_index(elmo, text, path, min_count=2)
    build_index(elmo, text, path, min_count=2, force=True)
    assert OccurrenceIndex.open(path).words == ["bank", "river"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text.index", "text.txt"]


def test_the_model_is_found_and_compared(
    elmo: Elmo, index: OccurrenceIndex, tiny: Path, tmp_path: Path
) -> None:
    by_itself = OccurrenceIndex.open(index.path)
    expected = index.search("The **bank** of a river")
    assert_same(by_itself.search("The **bank** of a river"), expected)
    other = Elmo.from_pretrained()
    with pytest.raises(ElmoxError, match="was made with another model"):
        OccurrenceIndex.open(index.path, other)
    elmo.save_pretrained(tmp_path / "copy")
    moved = OccurrenceIndex.open(index.path)
    moved.load_model(tmp_path / "copy")
    assert_same(moved.search("The **bank** of a river"), expected)


def test_bad_arguments(elmo: Elmo, index: OccurrenceIndex, text: Path, tmp_path: Path) -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: index.search("The **banks**"), "no uses of 'banks', but it has bank"),
        (lambda: index.search("The bank"), "no marked word"),
        (lambda: index.search("**The** **bank**"), "2 words are marked"),
        (lambda: index.search("The **bank of** Seine"), "2 tokens"),
        (lambda: index.search("The bank", word="money"), "'money' is not a token"),
        (lambda: index.search("The bank", position=2), "position=2"),
        (lambda: index.search(""), "no words"),
        (lambda: index.search("The **bank**", top_k=0), "top_k"),
        (lambda: index.uses("zebra"), "no uses of 'zebra'"),
        (lambda: build_index(elmo, text, tmp_path / "x", layers="all"), "one vector per word"),
        (lambda: build_index(elmo, text, tmp_path / "x", min_count=100), "at least 100 times"),
        (lambda: build_index(elmo, text, tmp_path / "x", words=["gone"]), "none of gone"),
        (lambda: build_index(elmo, text, tmp_path / "x", words="gone"), "a list of words"),
        (lambda: build_index(elmo, text, tmp_path / "x", words=[]), "words is empty"),
        (lambda: build_index(elmo, "-", tmp_path / "x"), "stdin"),
        (lambda: build_index(elmo, iter(["a b"]), tmp_path / "x"), "read twice"),  # type: ignore[arg-type]
        (lambda: build_index(elmo, tmp_path / "gone", tmp_path / "x"), "does not exist"),
    ]
    for call, message in cases:
        with pytest.raises(ElmoxError) as caught:
            call()
        assert message in str(caught.value)
    with pytest.raises(ArgumentError, match="any_word=True"):
        index.uses("zebra")


def test_repr_and_close(index: OccurrenceIndex) -> None:
    assert f"{len(index)} uses of {len(index.words)} words, layers='top'" in repr(index)
    with index:
        use = index.uses("bank")[0]
    assert str(use) == "The [bank] of the river was steep."
    with pytest.raises(ElmoxError, match="was closed"):
        index.uses("bank")
