"""Every view in a real browser, with both back ends, against Python."""

import numpy as np
import pytest
from explorer_page import Explorer
from numpy.typing import NDArray

from elmox import Elmo

A, B = "The cat sat on the naïve cat.", "the 天 😀 sat"
TOLERANCE = 1e-4


def cosines(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """(..., T, D), (..., U, D) -> (..., T, U)."""
    x, y = (v.astype(float) / np.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
    return np.asarray(x @ np.swapaxes(y, -1, -2))


def test_one_word_in_two_sentences(explorer: Explorer, elmo: Elmo) -> None:
    """Typed sentences, clicked words, moved sliders."""
    explorer.show("compare")
    explorer.figure()
    explorer.type("Sentence A", A)
    explorer.type("Sentence B", B)
    page = explorer.page
    page.get_by_role("group", name="Word in A").get_by_text("naïve").click()
    page.get_by_role("group", name="Word in B").get_by_text("天").click()
    a, b = elmo.encode_tokens([A, B], layers="all")
    expected = cosines(a, b)[:, 5, 1]
    np.testing.assert_allclose(np.ravel(explorer.numbers())[:3], expected, atol=TOLERANCE)
    assert "wa=5" in page.url
    assert "wb=1" in page.url
    page.get_by_text("Layer mix").click()
    page.get_by_label("Layer 2").last.fill("3")
    page.get_by_label("Scale").fill("2")
    elmo.set_mix([0.0, 0.0, 3.0], 2.0)
    mixed = [v.astype(float) for v in elmo.encode_tokens([A, B], layers="mix")]
    np.testing.assert_allclose(
        explorer.numbers()[3], cosines(mixed[0], mixed[1])[5, 1], atol=TOLERANCE
    )


def test_nearest_senses(explorer: Explorer, elmo: Elmo) -> None:
    """Similarities to example sentences on the page, in the chosen layer."""
    sentences = ["I sat on the bank.", "The bank sat."]
    explorer.show("compare", a=sentences[0], b=sentences[1], layer="1")
    for figure, sentence in ((1, sentences[0]), (2, sentences[1])):
        rows = explorer.rows(figure)
        assert {sense for sense, _, _ in rows} == {"river", "money"}
        query = elmo.encode_tokens(sentence, layers=1)[elmo.tokenize(sentence).index("bank")]
        for _, text, similarity in rows:
            example = elmo.encode_tokens(text, layers=1)[elmo.tokenize(text).index("bank")]
            expected = cosines(query[None], example[None])[0, 0]
            assert float(similarity) == pytest.approx(expected, abs=TOLERANCE)


def test_all_pairs_in_every_layer(explorer: Explorer, elmo: Elmo) -> None:
    explorer.show("pairs", a=A, b=B)
    expected = cosines(*elmo.encode_tokens([A, B], layers="all"))
    for layer, name in enumerate(["Layer 0, no context", "Layer 1", "Layer 2"]):
        explorer.figure()
        explorer.page.get_by_role("group", name="Layer").get_by_text(name).click()
        explorer.page.get_by_role("heading", name=f"{name}: similarity").wait_for()
        np.testing.assert_allclose(explorer.numbers(), expected[layer], atol=TOLERANCE)
    assert [word for word, *_ in explorer.rows()] == elmo.tokenize(A)


def test_surprise(explorer: Explorer, elmo: Elmo) -> None:
    explorer.show("surprise", s="<S> The cat sat unseen.")
    [score] = elmo.score(["<S> The cat sat unseen."])
    assert score.backward is not None
    forward, backward = (-p[:-1] / np.log(2) for p in (score.forward, score.backward))
    expected = np.stack([forward, backward, (forward + backward) / 2], axis=1)
    np.testing.assert_allclose(explorer.numbers(), expected, atol=TOLERANCE)
    perplexity = explorer.figure().inner_text().partition("Perplexity of the sentence: ")[2]
    assert float(perplexity.split()[0].rstrip(".")) == pytest.approx(score.perplexity, abs=0.06)


@pytest.mark.parametrize("position", [0, 2, 6])
def test_fill_the_gap(explorer: Explorer, elmo: Elmo, position: int) -> None:
    explorer.show("gap", g="The cat sat unseen 天 😀 .", gap=str(position))
    tokens = ["The", "cat", "sat", "unseen", "天", "😀", "."]
    for number, direction in enumerate(("left", "right", "both")):
        expected = elmo.predict(tokens, position, 10, direction)  # type: ignore[arg-type]
        rows = explorer.rows(number)
        assert len(rows) == len(expected) == 8
        for (word, probability), prediction in zip(rows, expected, strict=True):
            assert word == prediction.word
            assert float(probability) == pytest.approx(prediction.probability, abs=TOLERANCE)


def test_spelling(explorer: Explorer, elmo: Elmo) -> None:
    explorer.show("spelling")
    explorer.figure()
    explorer.type("Word", "catt")
    words = ["the", "cat", ".", "naïve", "sat", "天", "😀", "The"]
    vectors = elmo.reader.token_vectors([*words, "catt"]).numpy()
    similarities = dict(zip(words, cosines(vectors[:-1], vectors[-1:])[:, 0], strict=True))
    rows = explorer.rows()
    assert [word for word, _ in rows] == sorted(words, key=lambda w: -similarities[w])
    for word, similarity in rows:
        assert float(similarity) == pytest.approx(similarities[word], abs=1e-3)  # float16
