"""Documents as vectors: those of their sentences, with positions in the text."""

import numpy as np
import pytest

from elmox import Elmo, ElmoxError

TEXT = "I can't. Why not?\n\nNew York is far."


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return Elmo.from_pretrained(device="cpu")


def test_vectors_are_those_of_the_sentences(elmo: Elmo) -> None:
    document = elmo.encode_document(TEXT)
    assert document.sentences == elmo.split(TEXT)
    assert [sentence.text for sentence in document.sentences] == [
        "I can't.", "Why not?", "New York is far."
    ]  # fmt: skip
    expected = elmo.encode_tokens(["I can't.", "Why not?", "New York is far."])
    assert np.array_equal(document.vectors, np.concatenate(expected))
    assert document.tokens == [TEXT[start:end] for start, end in document.offsets]
    assert document.sentence_indices.tolist() == [0] * 4 + [1] * 3 + [2] * 5
    assert len(document) == 12
    assert repr(document) == "EncodedDocument(3 sentences, 12 tokens, vectors (12, 256))"


def test_several_layers(elmo: Elmo) -> None:
    document = elmo.encode_document(TEXT, layers="all", normalize_embeddings=True)
    assert document.vectors.shape == (elmo.num_layers, 12, elmo.dim)
    assert np.allclose(np.linalg.norm(document.vectors, axis=-1), 1, atol=1e-5)


def test_wrapped_lines(elmo: Elmo) -> None:
    text = "It was a dark\nand stormy night."
    assert len(elmo.split(text)) == 2
    document = elmo.encode_document(text, wrapped=True)
    assert [sentence.text for sentence in document.sentences] == [text]


@pytest.mark.parametrize(("layers", "shape"), [("average", (0, 256)), ("all", (3, 0, 256))])
def test_an_empty_document(elmo: Elmo, layers: str, shape: tuple[int, ...]) -> None:
    document = elmo.encode_document(" \n", layers=layers)
    assert document.vectors.shape == shape
    assert (document.tokens, document.offsets, document.sentences) == ([], [], [])
    assert document.sentence_indices.shape == (0,)


def test_tokens_of_some_characters(elmo: Elmo) -> None:
    document = elmo.encode_document(TEXT)

    def tokens(start: int, end: int) -> list[str]:
        return document.tokens[document.char_span(start, end)]

    start = TEXT.index("New York")
    assert tokens(start, start + len("New York")) == ["New", "York"]
    assert tokens(start + 1, start + 2) == ["New"]  # a part of a token
    assert tokens(start + 3, start + 4) == []  # the space
    assert tokens(2, 7) == ["ca", "n't"]
    assert tokens(0, len(TEXT)) == document.tokens
    assert tokens(5, 5) == []
    assert tokens(start, start) == []


def test_a_list_is_no_document(elmo: Elmo) -> None:
    with pytest.raises(ElmoxError, match=r"text is \['a'\] \(list\): expected a string"):
        elmo.encode_document(["a"])  # type: ignore[arg-type]
