"""Text classification: files of all formats, single texts and pairs, from file to label."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fits import fit_task, predicted
from shell import assert_one_line, run_here

from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.classify.network import LabeledText, TextClassifier
from elmox.tasks.classify.task import Classify, ClassifyOutput
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import TaskRecipe, task_recipe
from elmox.tasks.registry import TASKS

TASK = Classify(TASKS["classify"])
WORDS = {
    "sports": ["match", "goal", "team", "coach", "won", "league", "player", "season"],
    "weather": ["rain", "snow", "wind", "sunny", "cold", "storm", "cloud", "degrees"],
    "food": ["soup", "bread", "cheese", "dinner", "cook", "taste", "fresh", "spice"],
}
FILLERS = [
    "the",
    "a",
    "of",
    "and",
    "it",
    "was",
    "today",
    "very",
    "in",
    "our",
    "that",
    "more",
    "with",
]
SMALL = ["words.dim=16", "words.filters=0", "words.min_count=1", "head.hidden=12"]
SHORT = ["fit.epochs=4", "fit.least_updates=20", "fit.lr=0.01", "elmo.model=none"]


def text_about(topic: str, chance: random.Random) -> str:
    """A text of some sentences with a few words of its topic."""
    words = [*chance.choices(WORDS[topic], k=3), *chance.choices(FILLERS, k=9)]
    chance.shuffle(words)
    return f'{" ".join(words[:6]).capitalize()}, "{" ".join(words[6:])}".\nSo it was.'


def topics(count: int, seed: int) -> list[dict[str, str]]:
    chance = random.Random(seed)
    names = [list(WORDS)[number % 3] for number in range(count)]
    return [{"text": text_about(name, chance), "label": name} for name in names]


def pairs(count: int, seed: int) -> list[dict[str, str]]:
    """Two texts, and whether they are about the same topic."""
    chance = random.Random(seed)
    predictions = []
    for number in range(count):
        first = chance.choice(list(WORDS))
        second = first if number % 2 else chance.choice([name for name in WORDS if name != first])
        texts = {"a": text_about(first, chance), "b": text_about(second, chance)}
        predictions.append({**texts, "same": "yes" if number % 2 else "no"})
    return predictions


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def recipe(*changes: str) -> TaskRecipe:
    return task_recipe(None, [*SMALL, *SHORT, *changes])


def test_topics_are_learned(tmp_path: Path) -> None:
    """Texts that were not in the training data, by words of their topics."""
    train = write_csv(tmp_path / "train.csv", topics(90, seed=0))
    dev = write_json_lines(tmp_path / "dev.jsonl", topics(60, seed=1))
    results = fit_task(
        "classify", recipe(), train, dev, tmp_path / "run", device="cpu", cache=tmp_path
    )
    assert (results.metric, set(results.best.dev)) == ("accuracy", {"accuracy", "macro_f1"})
    assert results.mean["dev"] > 95
    predictor = TaskPredictor.from_pretrained(results.model, device="cpu")
    assert "labels=[food, sports, weather]" in repr(predictor)
    output = predictor.predict("Our team won the match today.")
    assert isinstance(output, ClassifyOutput)
    assert output.label == "sports"
    assert sum(output.probabilities.values()) == pytest.approx(1)
    texts: list[Any] = ["Rain. Snow. Wind.", ["fresh", "bread"], {"text": "", "id": 1}]
    labels = [prediction["label"] for prediction in predicted(predictor, texts)]
    assert labels[:2] == ["weather", "food"]
    assert labels[2] in WORDS  # an empty text has a label too
    assert predictor.score(dev)["accuracy"] == pytest.approx(results.mean["dev"])


def test_pairs_are_learned(tmp_path: Path) -> None:
    train = write_csv(tmp_path / "train.csv", pairs(200, seed=0))
    dev = write_csv(tmp_path / "dev.csv", pairs(60, seed=1))
    columns = ["head.text_column=a", "head.pair_column=b", "head.label_column=same"]
    results = fit_task(
        "classify",
        recipe(*columns, "fit.epochs=12"),
        train,
        dev,
        tmp_path / "run",
        device="cpu",
        cache=tmp_path,
    )
    assert results.mean["dev"] > 85
    predictor = TaskPredictor.from_pretrained(results.model, device="cpu")
    assert predictor.predict({"a": "rain", "b": "snow"}).to_dict()["label"] in ("yes", "no")
    with pytest.raises(ElmoxError, match="the keys are text, expected a and b"):
        predictor.predict("rain")


def test_from_the_command_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns by name, ELMo, a table to label: its other columns come back with the label."""
    rows = [{"review": row["text"], "topic": row["label"], "id": i} for i, row in
            enumerate(topics(45, seed=0))]  # fmt: skip
    data, out = write_csv(tmp_path / "reviews.csv", rows), tmp_path / "run"
    settings = [part for change in [*SMALL, *SHORT[:3]] for part in ("--set", change)]
    columns = ["--text-column", "review", "--label-column", "topic"]
    files = ["--train", data, "--dev", data, "--out", out, "--cache", tmp_path / "cache"]
    options = [*files, "--elmo", tiny, *settings, *columns, "--recipe", "classify"]
    code, printed, err = run_here(["fit", "classify", *options], capsys)
    assert code == 0, err
    assert printed.startswith("dev accuracy ")
    model = out / "seed-0" / "model"
    code, printed, err = run_here(["eval", model, data], capsys)
    assert code == 0, err
    assert [line.split()[0] for line in printed.splitlines()] == ["accuracy", "macro_f1"]
    unlabeled = write_csv(tmp_path / "new.csv", [{"id": 1, "review": "Rain, and snow."}])
    code, printed, err = run_here(["tag", model, unlabeled], capsys)
    assert code == 0, err
    output = json.loads(printed)
    assert list(output) == ["id", "review", "label", "probabilities"]
    assert (output["id"], output["review"]) == ("1", "Rain, and snow.")
    assert output["label"] == max(output["probabilities"], key=output["probabilities"].get)
    (tmp_path / "lines.txt").write_text("Rain. And snow.\n\nBread\n")
    code, printed, err = run_here(["tag", model, tmp_path / "lines.txt"], capsys)
    assert code == 0, err
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["line"] for line in lines] == [1, 2, 3]  # a label per line, not per sentence
    assert lines[0]["review"] == "Rain. And snow."
    (tmp_path / "wrong.csv").write_text("body\nRain\n")
    refused = run_here(["tag", model, tmp_path / "wrong.csv"], capsys)
    assert_one_line(*refused, "wrong.csv, line 2: the keys are body, expected review or text or")
    refused = run_here(["fit", "classify", *files], capsys)
    assert_one_line(
        *refused,
        "line 1: the columns are 'review', 'topic', 'id', expected 'text': rename a column, or set "
        "head.text_column",
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,stars\nx,1\n", "expected 'label': rename a column, or set head.label_co"),
        ("a.csv", "text,label\n", "a.csv has no rows: expected a text and a label in each"),
        ("a.csv", "text,label\nx, \n", "line 2: label is ' ', expected a label"),
        ("a.jsonl", '{"text": 3, "label": "x"}\n', "object 1: text is 3, expected a string"),
        ("a.jsonl", '{"text": "a", "label": null}\n', "object 1: label is None, expected a label"),
        ("a.txt", "text,label\n", "the suffix is '.txt', expected .csv, .tsv or .jsonl"),
    ],
)
def test_wrong_files(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ElmoxError, match=message):
        TASK.read(tmp_path / name)


def test_labels_and_texts_of_json(tmp_path: Path) -> None:
    labels: list[Any] = [1, False, "1"]
    rows = [
        {"text": text, "label": label}
        for text, label in zip(("A b.", "", "c"), labels, strict=True)
    ]
    path = write_json_lines(tmp_path / "a.jsonl", rows)
    assert TASK.read(path) == [
        LabeledText((("A", "b", "."),), "1"),
        LabeledText(((),), "False"),
        LabeledText((("c",),), "1"),
    ]
    cut = TASK.read(path, TASK.parse_settings({"max_words": 2, "tokenizer": "whitespace"}))
    assert cut[0].texts == (("A", "b."),)


def test_one_label_is_nothing_to_learn() -> None:
    examples = [LabeledText((("a",),), "x")] * 3
    message = "the only label of 3 training examples is 'x': expected two labels or more in column"
    with pytest.raises(NothingToLearn, match=message):
        TASK.configure(examples, TASK.parse_settings({}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, r"head\.hidden is 0"),
        ({"max_words": 0}, r"head\.max_words is 0"),
        ({"dropout": 1}, r"head\.dropout is 1"),
        ({"label_column": "text"}, "expected different names"),
        ({"column": "text"}, "column"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ElmoxError, match=message):
        TASK.parse_settings(settings)


def classifier(**settings: object) -> TextClassifier:
    torch.manual_seed(0)
    config = {"settings": {"hidden": 4, **settings}, "labels": ("a", "b", "c")}
    head = TASK.build_head(config, Widths(5, output=3))
    assert isinstance(head, TextClassifier)
    return head


def embedded(*lengths: int) -> Embedded:
    torch.manual_seed(1)
    sizes = torch.tensor(lengths)
    mask = torch.arange(max(1, *lengths)) < sizes[:, None]
    inputs, output = (torch.randn(*mask.shape, width) * mask[..., None] for width in (5, 3))
    return Embedded(mask, sizes, inputs, output=output)


@pytest.mark.parametrize("pair_column", ["", "other"])
def test_a_batch_changes_no_prediction(pair_column: str) -> None:
    head, texts = classifier(pair_column=pair_column).eval(), embedded(3, 0, 9, 1)
    assert texts.output is not None
    together = head(texts)
    size = 2 if pair_column else 1
    assert together.shape == (4 // size, 3)
    for row in range(4 // size):
        rows = slice(row * size, (row + 1) * size)
        longest = max(1, int(texts.lengths[rows].max()))
        alone = Embedded(
            texts.mask[rows, :longest],
            texts.lengths[rows],
            texts.input[rows, :longest],
            output=texts.output[rows, :longest],
        )
        torch.testing.assert_close(head(alone)[0], together[row])


@pytest.mark.parametrize("pair_column", ["", "other"])
def test_every_weight_learns(pair_column: str) -> None:
    head = classifier(pair_column=pair_column, dropout=0.0)
    examples = [LabeledText(((), ()), label) for label in ("a", "b")]
    lengths = (3, 2, 4, 1) if pair_column else (3, 4)
    head.loss(embedded(*lengths), examples).backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert 0 < parameter.grad.abs().sum() < float("inf"), name
