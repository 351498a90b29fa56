"""Views of a corpus and of an edited sentence, with both back ends, against Python."""

import json

import numpy as np
import pytest
from explorer_page import Explorer
from numpy.typing import NDArray

from elmox import Elmo
from elmox.explore.files import PAGE

TOLERANCE = 1e-4
FIELD = "Text to look at"
TEXT = "The cat sat. A dog saw the cat, Mr. Smith said. The Cat left!\nNo cat is here."
OWN = ["The cat sat.", "A dog saw the cat, Mr. Smith said.", "The Cat left!", "No cat is here."]
CORPUS: dict[str, dict[str, list[str]]] = json.loads((PAGE / "corpus.json").read_text("utf-8"))
SENTENCES = [
    (text, word, sense)
    for word, senses in CORPUS.items()
    for sense, texts in senses.items()
    for text in texts
]


def uses(elmo: Elmo, texts: list[str], word: str, layer: int) -> NDArray[np.float64]:
    """Return the directions of a word in some sentences; each of them has it once."""
    rows = []
    for text, vectors in zip(texts, elmo.encode_tokens(texts, layers=layer), strict=True):
        rows.append(vectors[[token.lower() for token in elmo.tokenize(text)].index(word)])
    directions = np.array(rows, float)
    return directions


def cosines(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, D), (M, D) -> (N, M)."""
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
    return np.asarray(x @ y.T)


def distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(points[:, None] - points[None], axis=-1))


def plane(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first two principal components; their signs are arbitrary."""
    left, scales, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    return np.asarray(left[:, :2] * scales[:2])


def test_every_sentence_has_its_word(elmo: Elmo) -> None:
    """Once, and no sentence occurs twice."""
    assert len({text for text, *_ in SENTENCES}) == len(SENTENCES) > 200
    for text, word, _ in SENTENCES:
        assert [token.lower() for token in elmo.tokenize(text)].count(word) == 1, text


def test_sense_map(explorer: Explorer, elmo: Elmo) -> None:
    """The plane and the share of neighbors with the same sense, in every layer with context."""
    examples = [(text, sense) for text, word, sense in SENTENCES if word == "seal"]
    senses = np.array([sense for _, sense in examples])
    for layer in (1, 2):
        explorer.show("map", word="Seal", layer=str(layer))
        rows = explorer.rows()
        assert [(text, sense) for _, _, _, sense, text in rows] == examples
        vectors = uses(elmo, [text for text, _ in examples], "seal", layer)
        points = np.array([[float(x), float(y)] for _, x, y, *_ in rows])
        np.testing.assert_allclose(distances(points), distances(plane(vectors)), atol=2e-4)
        similarities = cosines(vectors, vectors) - 2 * np.eye(len(vectors))
        tied = similarities > similarities.max(1, keepdims=True) - 1e-5
        shares = (tied & (senses[:, None] == senses)).sum(1) / tied.sum(1)
        assert float(explorer.rows(1)[layer][1]) == pytest.approx(shares.mean(), abs=TOLERANCE)


def test_a_point_is_read_out(explorer: Explorer, elmo: Elmo) -> None:
    """On hover and by keyboard, with the nearest uses in the whole space."""
    explorer.show("map", word="bat", layer="2")
    figure = explorer.figure()
    texts = [text for text, word, _ in SENTENCES if word == "bat"]
    vectors = uses(elmo, texts, "bat", 2)
    similarities = cosines(vectors, vectors) - 2 * np.eye(len(vectors))
    figure.locator("svg.scatter[tabindex]").focus()
    explorer.page.keyboard.press("ArrowRight")
    readout = figure.locator(".readout")
    assert readout.locator("p").inner_text() == f"animal: {texts[1]}"
    expected = sorted(similarities[1], reverse=True)[:3]
    shown = [float(text) for text in readout.locator("b").all_inner_texts()]
    np.testing.assert_allclose(shown, expected, atol=0.0051)
    figure.locator("svg.scatter[tabindex] path").nth(4).hover(force=True)
    assert texts[4] in readout.inner_text()


def test_a_map_of_a_pasted_text(explorer: Explorer, elmo: Elmo) -> None:
    explorer.show("map", word="cat", layer="1")
    explorer.page.get_by_text("occurs not at all in this corpus").wait_for()
    explorer.page.get_by_text("Your text").first.click()
    assert "Paste a text" in explorer.message()
    explorer.type(FIELD, TEXT)
    rows = explorer.rows()
    assert [text for *_, text in rows] == OWN
    points = np.array([[float(x), float(y)] for _, x, y, _ in rows])
    expected = plane(uses(elmo, OWN, "cat", 1))
    np.testing.assert_allclose(distances(points), distances(expected), atol=2 * TOLERANCE)
    explorer.type("Word", "nowhere")
    explorer.page.get_by_text("occurs not at all in this corpus").wait_for()
    explorer.type(FIELD, "cat " * 6000)
    assert "24,000 characters" in explorer.message()


def test_one_layer_without_context(explorer: Explorer) -> None:
    explorer.show("map", word="bat", layer="0")
    explorer.page.get_by_text("Layer 0 only reads the letters").wait_for()
    assert {(x, y) for _, x, y, *_ in explorer.rows()} == {("0", "0")}


def test_nearest_contexts(explorer: Explorer, elmo: Elmo) -> None:
    query = "The cat sat on a plant."
    explorer.show("contexts", q=query, qi="5", layer="2")
    texts = [text for text, word, _ in SENTENCES if word == "plant"]
    similarities = cosines(uses(elmo, [query], "plant", 2), uses(elmo, texts, "plant", 2))[0]
    expected = sorted(zip(similarities, texts, strict=True), reverse=True)[:10]
    rows = explorer.rows()
    assert [row[0] for row in rows] == [f"{similarity:.4f}" for similarity, _ in expected]
    assert [row[3] for row in rows] == [text for _, text in expected]


def test_any_word_of_a_pasted_text(explorer: Explorer, elmo: Elmo) -> None:
    query = "The dog sat."
    explorer.show("contexts", q=query, qi="1", layer="1", corpus="own", text=TEXT, scope="any")
    vector = elmo.encode_tokens(query, layers=1)[1:2].astype(float)
    expected = []
    for text, vectors in zip(OWN, elmo.encode_tokens(OWN, layers=1), strict=True):
        similarities = cosines(vector, vectors.astype(float))[0]
        words = zip(similarities, elmo.tokenize(text), strict=True)
        expected += [similarity for similarity, token in words if token[0].isalpha()]
    shown = [float(row[0]) for row in explorer.rows()]
    np.testing.assert_allclose(shown, sorted(expected, reverse=True)[:10], atol=TOLERANCE)


def test_an_edit(explorer: Explorer, elmo: Elmo) -> None:
    """Distances of every word that stays, in every layer; the edited word has none."""
    explorer.show("edit")
    explorer.figure()
    explorer.type("Sentence", "The dog sat on the naïve cat.")
    explorer.page.get_by_role("group", name="Word to replace").get_by_text("dog").click()
    before = elmo.tokenize("The dog sat on the naïve cat.")
    for inserted in ("cat", "", "naïve cat"):
        explorer.type("In its place (nothing leaves the word out)", inserted)
        shift = len(inserted.split()) - 1
        after = [*before[:1], *inserted.split(), *before[2:]]
        a, b = (v.astype(float) for v in elmo.encode_tokens([before, after], layers="all"))
        rows = explorer.rows()
        assert rows[1] == [f"dog → {inserted or 'nothing'}", "", "", "", ""]
        for i, row in enumerate(rows):
            if i != 1:
                y = b[:, i if i < 1 else i + shift]
                expected = [1 - cosines(a[k, i : i + 1], y[k : k + 1])[0, 0] for k in range(3)]
                np.testing.assert_allclose([*map(float, row[1:4])], expected, atol=TOLERANCE)
