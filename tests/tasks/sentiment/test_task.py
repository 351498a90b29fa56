"""Sentiment: phrases to learn from, ten sentences by heart, two degrees, what a batch changes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fits import fit_task, predicted

from elmox.errors import ElmoxError
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS
from elmox.tasks.sentiment.network import Maxout, Opinion
from elmox.tasks.sentiment.task import Sentiment

TREES = (
    "(4 (2 The) (4 (2 film) (4 shines)))",
    "(0 (2 The) (0 (2 film) (0 stinks)))",
    "(2 (2 The) (2 film))",
    "(3 (2 It) (3 (2 is) (3 nice)))",
    "(1 (2 Not) (3 good))",
    "(3 good)",
    "(1 bad)",
    "(4 (4 Very) (3 good))",
    "(0 (2 (2 The) (2 film)) (0 (2 is) (0 rubbish)))",
    "(2 (2 It) (2 (2 is) (2 (2 a) (2 film))))",
)
GOLD = [4, 0, 2, 3, 1, 3, 1, 4, 0, 2]
NAMES = ("very negative", "negative", "neutral", "positive", "very positive")
SMALL = {"hidden": 4, "maxout": (6, 5), "channels": 2}
TINY = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=12"]
BY_HEART = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0", "fit.lr=0.01"]


def recipe(*changes: str) -> TaskRecipe:
    short = ["fit.batch_size=4", "fit.least_updates=40", "fit.epochs=6", "fit.patience=2"]
    return task_recipe(None, [*TINY, *BY_HEART, *short, "head.maxout=[16]", *changes])


def write_trees(folder: Path) -> tuple[Path, Path]:
    paths = folder / "train.txt", folder / "dev.txt"
    for path in paths:
        path.write_text("\n".join(TREES) + "\n")
    return paths


def random_texts(lengths: Sequence[int], width: int = 5) -> Embedded:
    """Sentences of these lengths with ELMo after both LSTMs, 2 and 3 wide."""
    torch.manual_seed(0)
    sizes = torch.tensor(lengths)
    mask = torch.arange(max(lengths)) < sizes[:, None]
    vectors = [torch.randn(*mask.shape, w) * mask[..., None] for w in (width, 2, 3)]
    return Embedded(mask, sizes, *vectors)


def random_head(**settings: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    return Sentiment(TASKS["sst"]).build_head({**SMALL, **settings}, Widths(5, middle=2, output=3))


def test_training_examples(tmp_path: Path) -> None:
    task = Sentiment(TASKS["sst"])
    _, dev = write_trees(tmp_path)
    roots = task.read(dev)
    assert [example.sentiment for example in roots] == GOLD
    assert task.sentences(roots[3]) == (("It", "is", "nice"),)
    learned = task.training_examples(roots, task.parse_settings({}), print)
    texts = {example.words: example.sentiment for example in learned}
    assert len(texts) == len(learned) == 27  # each phrase once, the sentences among them
    assert texts[("film", "shines")] == 4
    assert texts[("bad",)] == 1
    assert texts[("The", "film")] == 2
    whole = task.training_examples(roots, task.parse_settings({"phrases": False}), print)
    assert [(e.words, e.sentiment) for e in whole] == [(e.words, e.sentiment) for e in roots]
    binary = task.training_examples(roots, task.parse_settings({"binary": True}), print)
    assert {example.sentiment for example in binary} == {0, 1, 3, 4}
    assert len(binary) == sum(sentiment != 2 for sentiment in texts.values())
    with pytest.raises(ElmoxError, match="leaves out neutral examples"):
        task.training_examples([roots[2]], task.parse_settings({"binary": True}), print)


def test_ten_sentences_by_heart(tiny: Path, tmp_path: Path) -> None:
    train, dev = write_trees(tmp_path)
    chosen = recipe(f"elmo.model={tiny}", "elmo.place=both")
    results = fit_task("sst", chosen, train, dev, tmp_path / "run", device="cpu", cache=tmp_path)
    assert (results.metric, results.mean) == ("accuracy", {"dev": 100.0})
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    assert fitted.score(dev) == {"accuracy": 100.0}
    words = [list(example.words) for example in Sentiment(TASKS["sst"]).read(dev)]
    predictions = predicted(fitted, [*words, [], ["good"] * 1000])
    assert [prediction["label"] for prediction in predictions[:10]] == [NAMES[i] for i in GOLD]
    assert predictions[10] == {"tokens": [], "label": None, "probabilities": {}}
    assert predictions[0]["tokens"] == ["The", "film", "shines"]
    assert list(predictions[0]["probabilities"]) == list(NAMES)
    for one, all_ in zip(words, predictions, strict=False):
        assert predicted(fitted, [one])[0]["probabilities"] == pytest.approx(
            all_["probabilities"], abs=1e-5
        )


def test_two_degrees(tmp_path: Path) -> None:
    train, dev = write_trees(tmp_path)
    chosen = recipe("elmo.model=none", "head.binary=true")
    results = fit_task("sst", chosen, train, dev, tmp_path / "run", device="cpu", cache=tmp_path)
    assert results.mean == {"dev": 100.0}  # two of the ten are neutral and do not count
    fitted = TaskPredictor.from_pretrained(results.best.model, device="cpu")
    labels = [prediction["label"] for prediction in predicted(fitted, [["Not", "good"], ["good"]])]
    assert labels == ["negative", "positive"]


def test_neutral_files_are_not_scored(tmp_path: Path) -> None:
    train, dev = write_trees(tmp_path)
    neutral = tmp_path / "neutral.txt"
    neutral.write_text("(2 so)\n(2 (2 The) (2 film))\n")
    options: dict[str, Any] = {"device": "cpu", "cache": tmp_path}
    out = tmp_path / "run"
    chosen = recipe("elmo.model=none", "head.binary=true", "fit.epochs=1", "fit.least_updates=1")
    for part, files in (("dev", (neutral, None)), ("test", (dev, neutral))):
        message = f"the {part} data: nothing to score, all of 2 sentences are neutral"
        with pytest.raises(ElmoxError, match=message):
            fit_task("sst", chosen, train, files[0], out, test=files[1], **options)
    assert not out.exists()  # before anything was fitted
    results = fit_task("sst", chosen, train, dev, out, **options)
    with pytest.raises(ElmoxError, match=r"neutral\.txt: nothing to score"):
        TaskPredictor.from_pretrained(results.best.model, device="cpu").score(neutral)


def test_scores_of_sentences() -> None:
    task = Sentiment(TASKS["sst"])
    examples = [Opinion(("x",), sentiment) for sentiment in (0, 1, 2, 3, 4)]
    five = [{**dict.fromkeys(NAMES, 0.1), NAMES[i]: 0.6} for i in (0, 1, 2, 2, 2)]
    assert task.score(examples, five) == {"accuracy": 60.0}
    two = [{"negative": p, "positive": 1 - p} for p in (0.9, 0.8, 0.1, 0.7, 0.2)]
    assert task.score(examples, two) == {"accuracy": 75.0}
    assert task.score(examples[2:3], two[2:3]) == {"accuracy": 0.0}


def test_a_batch_changes_no_answer() -> None:
    head = random_head().eval()
    lengths = (3, 1, 9, 200)
    texts = random_texts(lengths)
    assert texts.middle is not None
    assert texts.output is not None
    together = head(texts)
    assert together.shape == (4, 5)
    for row, length in enumerate(lengths):
        mask, *vectors = (
            part[row : row + 1, :length]
            for part in (texts.mask, texts.input, texts.middle, texts.output)
        )
        alone = Embedded(mask, texts.lengths[row : row + 1], *vectors)
        assert torch.allclose(head(alone)[0], together[row], atol=1e-6)


@pytest.mark.parametrize("lengths", [(3, 2, 4), (5,)])
def test_every_weight_learns(lengths: tuple[int, ...]) -> None:
    head = random_head(dropout=0.0)
    examples = [Opinion(("x",) * length, row) for row, length in enumerate(lengths)]
    loss = head.loss(random_texts(lengths), examples)  # type: ignore[operator]
    loss.backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert 0 < parameter.grad.abs().sum() < float("inf"), name


def test_maxout() -> None:
    layer = Maxout(2, 3, channels=4)
    batch = torch.randn(5, 2)
    maps = layer.maps(batch)
    expected = torch.stack([maps[:, i * 4 : i * 4 + 4].max(1).values for i in range(3)], dim=1)
    assert torch.equal(layer(batch), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, r"head\.hidden is 0"),
        ({"maxout": [3, 0]}, r"head\.maxout is 0"),
        ({"channels": 0}, r"head\.channels is 0"),
        ({"dropout": 1}, r"head\.dropout is 1"),
        ({"cells": 1}, "cells"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        Sentiment(TASKS["sst"]).parse_settings(settings)
