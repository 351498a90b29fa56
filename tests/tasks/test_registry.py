"""The registry: every task has an entry, a recipe and a page; a new task needs nothing else."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fits import fit_task

from elmox.errors import ElmoxError
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import task_recipe
from elmox.tasks.registry import TASKS, TaskInfo, find_task, register_task

# A whole task: words of a sentence are counted, and the network predicts whether they are many.
TOY = """
from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn, tensor

from elmox.tasks.base import Head, Task, TaskOutput


@dataclass(frozen=True)
class Line:
    words: tuple[str, ...]
    is_long: bool = False


@dataclass(frozen=True)
class ToySettings:
    hidden: int = 4


@dataclass(frozen=True)
class ToyOutput(TaskOutput):
    words: tuple[str, ...]
    is_long: bool


class ToyHead(Head[Line, bool]):
    def __init__(self, settings, widths):
        super().__init__()
        self.scores = nn.Sequential(
            nn.Linear(widths.input, settings.hidden), nn.Tanh(), nn.Linear(settings.hidden, 2)
        )

    def forward(self, texts):
        return self.scores(texts.input).sum(1)

    def loss(self, texts, examples):
        return F.cross_entropy(self(texts), tensor([int(e.is_long) for e in examples]))

    def predict(self, texts, examples):
        return [bool(row) for row in self(texts).argmax(1)]


class Toy(Task[Line, bool]):
    settings_type = ToySettings
    config_type = ToySettings
    head_type = ToyHead

    def read(self, path, settings=None):
        lines = (line.split() for line in path.read_text().splitlines())
        return [Line(tuple(words), len(words) > 3) for words in lines]

    def example_from_input(self, values, settings=None):
        return Line(tuple(values["tokens"]))

    def sentences(self, example):
        return (example.words,)

    def configure(self, train, settings):
        return settings

    def score(self, examples, predictions):
        right = sum(e.is_long == p for e, p in zip(examples, predictions, strict=True))
        return {"accuracy": 100 * right / len(examples)}

    def format_prediction(self, example, prediction, offsets):
        return ToyOutput(example.words, prediction)
"""
INFO = TaskInfo(
    "toy",
    summary="whether a line is long",
    formats="a sentence per line",
    metric="accuracy",
    score="accuracy over lines",
    factory="toy_task:Toy",
)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskInfo]:
    (tmp_path / "toy_task.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    register_task(INFO)
    yield INFO
    del TASKS[INFO.name]
    sys.modules.pop("toy_task", None)


def test_a_new_task_is_a_module_and_an_entry(toy: TaskInfo, tmp_path: Path) -> None:
    """Base class and registry are all that fitting, storing, predicting and scoring need."""
    assert "toy_task" not in sys.modules  # imported when it is used
    data = tmp_path / "lines.txt"
    data.write_text("a b\nb a c d\nd\nc b a\na a b d c\nc d\nb b b b\n")
    sizes = ["words.dim=8", "words.filters=0", "words.min_count=1", "words.dropout=0"]
    recipe = task_recipe(None, [*sizes, "elmo.model=none", "fit.lr=0.05", "fit.epochs=2"])
    results = fit_task(
        "toy", recipe, data, data, tmp_path / "run", device="cpu", cache=tmp_path / "cache"
    )
    assert results.mean == {"dev": 100.0}
    predictor = TaskPredictor.from_pretrained(results.model, device="cpu")
    assert predictor.score(data) == {"accuracy": 100.0}
    outputs = [output.to_dict() for output in predictor.predict(["a b", ["c", "d", "a", "b"]])]
    assert outputs == [
        {"words": ["a", "b"], "is_long": False},
        {"words": ["c", "d", "a", "b"], "is_long": True},
    ]
    assert repr(find_task("toy")) == "Toy('toy')"


def test_names_are_taken_once(toy: TaskInfo) -> None:
    register_task(toy)  # again, the same
    with pytest.raises(ElmoxError, match="there is already a task 'ner': choose another name"):
        register_task(replace(toy, name="ner"))


def test_unknown_names_get_the_list() -> None:
    with pytest.raises(ElmoxError, match=r"no task 'names': choose one of classify, pos, "):
        find_task("names")


@pytest.mark.parametrize("info", TASKS.values(), ids=list(TASKS))
def test_entries_describe_their_tasks(info: TaskInfo) -> None:
    task = find_task(info.name)
    assert (task.name, task.metric, task.info) == (info.name, info.metric, info)
    assert find_task(info.name) is task
    assert task.parse_settings({}) == task.settings_type()  # every setting has a default
