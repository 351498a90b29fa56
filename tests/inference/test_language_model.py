"""Scores, predictions and evaluations against the NumPy oracle, and what a user can get wrong."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from checkpoints import random_options, write_many_langs, write_word_model
from hypothesis import given, settings
from language_models import OURS, WORDS, TinyLm, forward_only, tiny_lm, with_softmax, write_softmax
from sentences import batches

from elmox import Elmo, ElmoxError
from elmox.inference.language_model import SentenceScore
from elmox.model.checkpoint import Softmax
from elmox.model.softmax import AdaptiveSoftmax

SENTENCES = [
    ["The", "cat", "sat", "."],
    ["The", "dog", "sat", "unbelievably", "naïve"],
    [],
    ["天"],
    ["<UNK>", "the", "x" * 70],
]


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory) -> TinyLm:
    return tiny_lm(tmp_path_factory.mktemp("lm"))


@pytest.fixture(scope="module")
def elmo(lm: TinyLm) -> Elmo:
    return lm.elmo(double=True)


def as_read(sentence: list[str]) -> list[str]:
    """Boundary marks inside a sentence are unknown words."""
    return ["<UNK>" if word in ("<S>", "</S>") else word for word in sentence]


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def among_words(probabilities: dict[str, float]) -> dict[str, float]:
    """The distribution without the special words."""
    words = {word: p for word, p in probabilities.items() if word not in OURS[:3]}
    return {word: p / sum(words.values()) for word, p in words.items()}


def by_scores(elmo: Elmo, sentence: list[str], position: int, direction: str) -> dict[str, float]:
    """The expected predictions: every word scored at that position."""
    texts = [[*sentence[:position], word, *sentence[position + 1 :]] for word in WORDS]
    probabilities = {}
    for word, score in zip(WORDS, elmo.score(texts), strict=True):
        log_probs = score.forward if direction == "left" else score.backward
        assert log_probs is not None
        probabilities[word] = math.exp(log_probs[position])
    return among_words(probabilities)


@settings(max_examples=25, deadline=None)
@given(sentences=batches(max_sentences=4, max_words=5))
def test_scores_of_any_words(lm: TinyLm, elmo: Elmo, sentences: list[list[str]]) -> None:
    scores = elmo.score(sentences)
    assert [list(score.tokens) for score in scores] == sentences
    for sentence, score in zip(sentences, scores, strict=True):
        forward, backward = lm.directions([as_read(sentence)])
        close(score.forward, forward[0])
        close(score.backward, backward[0])
        specials = ("<S>", "</S>", "<UNK>")
        unknown = [word not in WORDS or word in specials for word in sentence]
        assert score.unknown.tolist() == unknown


def test_which_position_is_which(lm: TinyLm, elmo: Elmo) -> None:
    """Against distributions, without the helper that the other tests share."""
    score = elmo.score([["the", "cat"]])[0]
    assert score.backward is not None
    scored = {
        0: {"": "the", "the": "cat", "the cat": "</S>"},
        1: {"": "cat", "cat": "the", "cat the": "<S>"},
    }
    for direction, start in ((0, "<S>"), (1, "</S>")):
        for before, target in scored[direction].items():
            hidden = _top(lm, direction, [start, *before.split()])
            expected = lm.log_prob(hidden, target)
            position = {"the": 0, "cat": 1}.get(target, 2)
            log_prob = (score.forward, score.backward)[direction][position]
            assert log_prob == pytest.approx(expected, abs=1e-9), (direction, before)


def _top(lm: TinyLm, direction: int, words: list[str]) -> Any:
    start = oracle.zero_state(lm.body, 1)
    vectors = oracle.token_vectors(lm.body, words)
    h, c = start.h[0, direction], start.c[0, direction]
    return oracle.run_stack(lm.body, direction, vectors, h, c)[0][-1][-1]


def test_log_prob_and_perplexity() -> None:
    score = SentenceScore(("a",), np.array([-1.0, -3.0]), np.array([-2.0, -4.0]), np.array([False]))
    assert score.log_prob == -5.0
    assert score.perplexity == pytest.approx(math.exp(2.5))
    alone = SentenceScore(("a",), np.array([-1.0, -3.0]), None, np.array([False]))
    assert alone.log_prob == -4.0


def test_repr_of_results(elmo: Elmo) -> None:
    (score,) = elmo.score([["The", "cat", "zebra"]])
    figures = f"log_prob={score.log_prob:.2f}, perplexity={score.perplexity:.2f}"
    assert repr(score) == f"SentenceScore('The cat zebra', {figures}, unknown=['zebra'])"
    assert "unknown" not in repr(elmo.score([["The", "cat"]])[0])
    evaluation = elmo.evaluate([["The", "cat"], ["The"]])
    assert repr(evaluation).startswith(
        f"Evaluation(perplexity={evaluation.perplexity:.2f} (forward"
    )
    assert repr(evaluation).endswith("3 words in 2 sentences, 0.0% unknown)")
    first = elmo.predict("The ___ sat")[0]
    assert repr(first) == f"Prediction({first.word!r}, {first.probability:.4f})"


def test_scores_do_not_depend_on_the_batch(lm: TinyLm) -> None:
    elmo = lm.elmo()
    together = elmo.score(SENTENCES)
    for size, tokens in ((1, None), (None, 7), (2, 9)):
        cut = elmo.score(SENTENCES, batch_size=size, batch_tokens=tokens)
        for a, b in zip(cut, together, strict=True):
            close(a.forward, b.forward, 1e-5)
            close(a.backward, b.backward, 1e-5)
    alone = [elmo.score([sentence])[0] for sentence in reversed(SENTENCES)]
    for a, b in zip(reversed(alone), together, strict=True):
        close(a.forward, b.forward, 1e-5)
    assert elmo.score([]) == []


def test_strings_go_through_the_models_tokenizer(elmo: Elmo) -> None:
    text = "The cat sat."
    assert elmo.score(text)[0].tokens == ("The", "cat", "sat", ".")
    close(elmo.score([text])[0].forward, elmo.score([["The", "cat", "sat", "."]])[0].forward)
    assert elmo.evaluate(text).num_words == 4


def test_warm_state_counts(lm: TinyLm) -> None:
    elmo = lm.elmo()
    cold = elmo.score([["the", "cat"]])[0]
    elmo.warm_up([["some", "text", "before"]])
    warm = elmo.score([["the", "cat"]])[0]
    assert np.abs(warm.forward - cold.forward).max() > 1e-3
    predicted = dict(elmo.predict(["the", "___"], k=len(WORDS), direction="left"))
    assert predicted == pytest.approx(by_scores(elmo, ["the", "___"], 1, "left"), abs=1e-5)


def test_one_sentence_scores_as_it_evaluates(elmo: Elmo) -> None:
    for sentence in SENTENCES[:2]:
        score, evaluation = elmo.score([sentence])[0], elmo.evaluate([sentence])
        assert score.backward is not None
        assert evaluation.nll.forward == pytest.approx(-score.forward.sum(), rel=1e-9)
        assert evaluation.nll.backward == pytest.approx(-score.backward.sum(), rel=1e-9)
        assert evaluation.perplexity == pytest.approx(score.perplexity, rel=1e-9)


def test_evaluation_runs_on_from_sentence_to_sentence(lm: TinyLm, elmo: Elmo) -> None:
    text = [["The", "dog", "sat"], [], ["naïve", "<S>", "天"], ["."]]
    evaluation = elmo.evaluate(iter(text))
    read = [as_read(sentence) for sentence in text if sentence]
    forward, backward = (sum(map(sum, sums)) for sums in lm.directions(read))
    assert (evaluation.num_sentences, evaluation.num_words, evaluation.num_tokens) == (3, 7, 10)
    assert evaluation.forward_perplexity == pytest.approx(math.exp(-forward / 10), rel=1e-9)
    assert evaluation.backward_perplexity == pytest.approx(math.exp(-backward / 10), rel=1e-9)
    mean = math.exp(-(forward + backward) / 20)
    assert evaluation.perplexity == pytest.approx(mean, rel=1e-9)
    assert evaluation.unknown_share == 2 / 7  # dog and <S>
    assert evaluation.num_characters == 3 + 1 + 3 + 1 + 3 + 1 + 5 + 1 + 3 + 1 + 1 + 1 + 1 + 1
    spelled = (3 + 1 + 3 + 1) * math.log2(257)
    bits = [(-nats / math.log(2) + spelled) / 26 for nats in (forward, backward)]
    assert evaluation.forward_bits_per_character == pytest.approx(bits[0], rel=1e-9)
    assert evaluation.backward_bits_per_character == pytest.approx(bits[1], rel=1e-9)
    assert evaluation.bits_per_character == pytest.approx(sum(bits) / 2, rel=1e-9)
    assert evaluation.to_dict()["perplexity"] == evaluation.perplexity


def test_unknown_words_pay_for_their_bytes(elmo: Elmo) -> None:
    """Two words that differ for the softmax only in their length, three bytes per letter."""
    short, long = (elmo.evaluate([["the", word]]) for word in ("水", "水" * 20))
    assert long.num_unknown_bytes - short.num_unknown_bytes == 57
    assert long.num_characters - short.num_characters == 19


def test_a_vocabulary_of_nothing_does_not_win(lm: TinyLm, elmo: Elmo) -> None:
    """Perplexity praises a model that calls everything unknown; bits per character do not."""
    specials = OURS[:3]
    tensors = {"weight": torch.zeros(3, 6), "bias": torch.tensor([0.0, 0.0, 5.0])}
    nothing = with_softmax(elmo, Softmax(tensors, specials))
    text = [["the", "cat", "sat"], ["the", "naïve", "cat", "."]]
    assert nothing.evaluate(text).perplexity < elmo.evaluate(text).perplexity
    assert nothing.evaluate(text).bits_per_character > elmo.evaluate(text).bits_per_character


def distribution(lm: TinyLm, direction: int, words: list[str]) -> dict[str, float]:
    return dict(zip(WORDS, np.exp(lm.log_probs(_top(lm, direction, words))), strict=True))


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_predictions(lm: TinyLm, elmo: Elmo, position: int) -> None:
    sentence = ["The", "dog", "sat"]
    left = distribution(lm, 0, ["<S>", *sentence[:position]])
    right = distribution(lm, 1, ["</S>", *sentence[:position:-1]])
    # The vocabulary is in falling order of count: Zipf's law gives each word's frequency.
    rank = {word: number + 2.7 for number, word in enumerate(OURS)}
    both = {word: left[word] * right[word] * rank.get(word, 0.0) for word in WORDS}
    for direction, probability_of in (("left", left), ("right", right), ("both", both)):
        expected = among_words(probability_of)
        predictions = elmo.predict(sentence, position, k=99, direction=direction)  # type: ignore[arg-type]
        assert {word for word, _ in predictions} == set(OURS[3:])
        probabilities = [prediction.probability for prediction in predictions]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1.0, abs=1e-9)
        for word, probability in predictions:
            assert probability == pytest.approx(expected[word], abs=1e-9)
        assert elmo.predict(sentence, position, 3, direction) == predictions[:3]  # type: ignore[arg-type]


def test_the_word_in_question_is_not_looked_at(elmo: Elmo) -> None:
    expected = elmo.predict(["The", "___", "sat"], 1)
    for word in ("cat", "dog", "", "<S>", "x" * 99):
        assert elmo.predict(["The", word, "sat"], 1) == expected
    assert elmo.predict(["The", "___", "sat"]) == expected
    assert elmo.predict("The ___ sat") == expected


def test_predictions_agree_with_scores(elmo: Elmo) -> None:
    sentence = ["The", "cat", "sat", "."]
    for place in range(len(sentence)):
        left = dict(elmo.predict(sentence, place, 99, "left"))
        right = dict(elmo.predict(sentence, place, 99, "right"))
        assert left == pytest.approx(by_scores(elmo, sentence, place, "left"), abs=1e-9)
        assert right == pytest.approx(by_scores(elmo, sentence, place, "right"), abs=1e-9)


def test_unknown_words_do_not_hide_the_others(elmo: Elmo) -> None:
    """A softmax that gives <UNK> nearly everything, and one that has nothing else to give."""
    bias = torch.zeros(len(OURS))
    bias[2] = 30.0
    softmax = Softmax({"weight": torch.zeros(len(OURS), 6), "bias": bias}, OURS)
    predictions = with_softmax(elmo, softmax).predict(["The", "___", "sat"], k=99, direction="left")
    assert {word for word, _ in predictions} == set(OURS[3:])
    assert [p for _, p in predictions] == pytest.approx([1 / 8] * 8)
    nothing = Softmax({"weight": torch.zeros(3, 6), "bias": torch.zeros(3)}, OURS[:3])
    with pytest.raises(ElmoxError, match=r"has only <S>, </S>, <UNK>: .*new_vocab=True"):
        with_softmax(elmo, nothing).predict(["The", "___", "sat"])


def test_forward_models(elmo: Elmo) -> None:
    one_way = forward_only(elmo)
    one_way.language_model.softmax.double()
    score = one_way.score([["The", "cat"]])[0]
    assert score.backward is None
    close(score.forward, elmo.score([["The", "cat"]])[0].forward, 1e-12)
    assert score.log_prob == pytest.approx(score.forward.sum())
    predictions = one_way.predict(["The", "___"], k=99, direction="left")
    for (word, a), (other, b) in zip(
        predictions, elmo.predict(["The", "___"], k=99, direction="left"), strict=True
    ):
        assert word == other
        assert a == pytest.approx(b, abs=1e-12)
    for direction in ("both", "right"):
        with pytest.raises(ElmoxError, match="use direction='left'"):
            one_way.predict(["The", "___"], direction=direction)
    figures = one_way.evaluate([["The", "cat"]]).to_dict()
    assert figures["backward_perplexity"] is None
    assert figures["backward_bits_per_character"] is None
    assert figures["bits_per_character"] == figures["forward_bits_per_character"]


def test_adaptive_softmax(elmo: Elmo, tmp_path: Path) -> None:
    layer = AdaptiveSoftmax(len(OURS), 6, (5,))
    layer.init(torch.Generator().manual_seed(0))
    model = with_softmax(elmo, Softmax(layer.state_dict(), OURS))
    score = model.score([["The", "cat", "sat"]])[0]
    for position in range(len(score.tokens)):
        predicted = dict(model.predict(list(score.tokens), position, 99, "left"))
        assert sum(predicted.values()) == pytest.approx(1.0, abs=1e-5)
        expected = by_scores(model, list(score.tokens), position, "left")
        assert predicted == pytest.approx(expected, abs=1e-5)
    model.to(dtype="float32").save_pretrained(tmp_path / "adaptive")
    again = Elmo.from_pretrained(tmp_path / "adaptive").score([["The", "cat", "sat"]])[0]
    close(again.forward, score.forward, 1e-5)


def test_word_models_and_many_langs(tmp_path: Path) -> None:
    """Their sentences are bounded by their own words; the softmax's special words are the same."""
    rng = np.random.default_rng(0)
    softmax, vocab = write_softmax(tmp_path, rng)
    models = (
        write_word_model(tmp_path / "words", random_options(), rng),
        write_many_langs(tmp_path / "many", "word_char", rng),
    )
    for path in models:
        elmo = Elmo.from_pretrained(path, softmax=softmax, softmax_vocab=vocab)
        score = elmo.score([["the", "dog"]])[0]
        predicted = dict(elmo.predict(["the", "dog"], 0, 99, "left"))
        assert predicted == pytest.approx(by_scores(elmo, ["the", "dog"], 0, "left"), abs=1e-5)
        assert elmo.evaluate([["the", "dog"]]).perplexity == pytest.approx(score.perplexity, 1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_low_precision(lm: TinyLm, dtype: str) -> None:
    elmo = lm.elmo()
    expected = elmo.score(SENTENCES)
    elmo.to(dtype=dtype)
    for a, b in zip(elmo.score(SENTENCES), expected, strict=True):
        assert a.forward.dtype == np.float32
        close(a.forward, b.forward, 0.2)
    assert elmo.evaluate(SENTENCES).perplexity > 1


def test_vectors_need_no_softmax(lm: TinyLm, tmp_path: Path) -> None:
    """A damaged one is not even looked at before it is used."""
    lm.elmo().save_pretrained(tmp_path / "model")
    damaged = tmp_path / "model" / "softmax.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:50])
    elmo = Elmo.from_pretrained(tmp_path / "model")
    assert elmo.encode("a word").shape == (12,)
    with pytest.raises(ElmoxError, match=r"softmax\.safetensors is damaged"):
        elmo.score(["a word"])


def test_save_and_load(lm: TinyLm, tmp_path: Path) -> None:
    elmo = lm.elmo()
    expected = elmo.score(SENTENCES)
    elmo.save_pretrained(tmp_path / "model")
    assert (tmp_path / "model" / "vocab.txt").read_text().split() == list(OURS)
    again = Elmo.from_pretrained(tmp_path / "model")
    again.save_pretrained(tmp_path / "model", force=True)  # over what it has not read yet
    for a, b in zip(
        Elmo.from_pretrained(tmp_path / "model").score(SENTENCES), expected, strict=True
    ):
        close(a.forward, b.forward, 1e-6)
        close(a.backward, b.backward, 1e-6)
    lm_free = Elmo.from_pretrained(lm.weights)
    lm_free.save_pretrained(tmp_path / "free")
    assert not (tmp_path / "free" / "vocab.txt").exists()


def broken(lm: TinyLm, folder: Path, change: str) -> Path:
    lm.elmo().save_pretrained(folder)
    (folder / "checksums.json").unlink()
    softmax, vocab = folder / "softmax.safetensors", folder / "vocab.txt"
    if change == "no vocabulary":
        vocab.unlink()
    elif change == "no softmax":
        softmax.unlink()
    elif change == "a word more":
        vocab.write_text(vocab.read_text() + "more\n")
    elif change == "other specials":
        vocab.write_text(vocab.read_text().replace("<UNK>", "<unk>"))
    elif change == "not UTF-8":
        vocab.write_bytes(b"<S>\n\xff\n")
    return folder


@pytest.mark.parametrize(
    ("change", "excerpt"),
    [
        ("no vocabulary", "lacks vocab.txt: a softmax is softmax.safetensors and vocab.txt"),
        ("no softmax", "lacks softmax.safetensors"),
        ("a word more", r"has shape \(11,\), but 12 words"),
        ("other specials", "vocab.txt does not begin with <S>, </S>, <UNK>"),
        ("not UTF-8", "vocab.txt is not UTF-8"),
    ],
)
def test_broken_directories(lm: TinyLm, tmp_path: Path, change: str, excerpt: str) -> None:
    with pytest.raises(ElmoxError, match=excerpt) as caught:
        Elmo.from_pretrained(broken(lm, tmp_path / "model", change)).score(["a"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "excerpt"),
    [
        ({"position": 4}, "position=4 of a sentence of 3 words: expected 0 to 3"),
        ({"position": -1}, "position=-1"),
        ({"position": 1, "k": 0}, "k is 0"),
        ({"position": 1, "direction": "up"}, "direction='up'"),
        ({}, "no gap ___"),
    ],
)
def test_wrong_predictions(elmo: Elmo, arguments: dict[str, Any], excerpt: str) -> None:
    with pytest.raises(ElmoxError, match=excerpt):
        elmo.predict(["The", "cat", "sat"], **arguments)


def test_wrong_arguments(lm: TinyLm, elmo: Elmo, tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="the sentence has 2 gaps ___"):
        elmo.predict("___ and ___")
    with pytest.raises(ElmoxError, match="no words"):
        elmo.evaluate([[], []])
    with pytest.raises(ElmoxError, match="num_rows is 0"):
        elmo.evaluate([["a"]], num_rows=0)
    with pytest.raises(ElmoxError, match="batch_tokens is 0"):
        elmo.score([["a"]], batch_tokens=0)
    with pytest.raises(ElmoxError, match="sentence 1 has the token 3"):
        elmo.score([["a"], ["b", 3]])  # type: ignore[list-item]
    with pytest.raises(ElmoxError, match=r"has no softmax.*by softmax and softmax_vocab"):
        Elmo.from_pretrained(lm.weights).predict("a ___")
    with pytest.raises(ElmoxError, match="softmax file and its vocabulary together"):
        Elmo.from_pretrained(lm.weights, softmax=lm.softmax)
    with pytest.raises(ElmoxError, match="softmax file and its vocabulary together"):
        Elmo.from_pretrained(lm.weights, softmax_vocab=lm.vocab)
    with pytest.raises(ElmoxError, match=r"gone\.hdf5 does not exist"):
        Elmo.from_pretrained(lm.weights, softmax="gone.hdf5", softmax_vocab=lm.vocab)
    lm.elmo().save_pretrained(tmp_path / "model")
    with pytest.raises(ElmoxError, match="has a softmax of its own"):
        Elmo.from_pretrained(tmp_path / "model", softmax=lm.softmax, softmax_vocab=lm.vocab)


def test_progress_bars_are_on_stderr(elmo: Elmo, capsys: pytest.CaptureFixture[str]) -> None:
    elmo.score(SENTENCES, show_progress_bar=True)
    shown = capsys.readouterr()
    assert "18.0/18.0" in shown.err  # tokens and ends of sentences
    elmo.evaluate(SENTENCES, show_progress_bar=True)
    assert "17.0/17.0" in capsys.readouterr().err
    assert shown.out == ""


@pytest.mark.parametrize(("text", "message"), [(None, "is None"), ({"a": 1}, "is a mapping")])
def test_evaluate_refuses_what_is_no_text(elmo: Elmo, text: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=f"sentences {message}"):
        elmo.evaluate(text)
