"""`elmox.fit`: files to a fitted model in one call."""

import json
from pathlib import Path
from typing import Any

import pytest
from tagged_files import NAMES, write_columns

from elmox.errors import ElmoxError
from elmox.tasks.fit.api import fit
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import task_recipe

SMALL: dict[str, Any] = {
    "words.dim": 8,
    "words.filters": 8,
    "words.min_count": 1,
    "head.hidden": [12],
    "fit.epochs": 1,
    "fit.least_updates": 1,
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_columns(tmp_path / "names.txt", NAMES)


def test_two_calls_from_files_to_predictions(tiny: Path, data: Path, tmp_path: Path) -> None:
    """Paths may be strings; settings a mapping, or a list as `--set` takes them."""
    out, cache = tmp_path / "run", tmp_path / "cache"
    options: dict[str, Any] = {"elmo": tiny, "device": "cpu", "cache": str(cache)}
    lines: list[str] = []
    results = fit("ner", str(data), data, out=str(out), settings=SMALL, log=lines.append, **options)
    predictor = TaskPredictor.from_pretrained(results.model, device="cpu")
    description = predictor.model.description
    assert description.recipe.elmo.model == str(tiny)
    assert (description.recipe.fit.epochs, description.head["settings"]["hidden"]) == (1, [12])
    assert any(line.startswith("epoch 1, loss ") for line in lines)
    as_list = [f"{name}={json.dumps(value)}" for name, value in SMALL.items()]
    recipe = task_recipe(None, [*as_list, "fit.lr=0.5"])
    again = fit(
        "ner", data, data, out=out, recipe=recipe, settings=["fit.lr=0.001"], **options
    )  # the same fit, which is not repeated
    assert again == results


def test_results_show_what_counts(data: Path, tmp_path: Path) -> None:
    results = fit(
        "ner",
        data,
        data,
        test=data,
        out=tmp_path / "run",
        elmo="none",
        settings=SMALL,
        seeds=2,
        device="cpu",
        cache=tmp_path,
    )
    best = results.best
    mean = results.mean["dev"]
    text = repr(results)
    assert text.startswith(f"Results(ner: dev f1 {mean:.2f} ± ")
    assert "over 2 seeds, test f1 " in text
    assert text.endswith(f"model={best.model!r})")
    assert repr(best).startswith(f"SeedResult(seed {best.seed}: dev f1 {best.dev['f1']:.2f}, dev ")
    assert results.model == best.model == str(tmp_path / "run" / f"seed-{best.seed}" / "model")


def test_recipes_by_name(data: Path, tmp_path: Path) -> None:
    results = fit(
        "ner",
        data,
        data,
        out=tmp_path / "run",
        recipe="ner",
        elmo="none",
        settings=SMALL,
        device="cpu",
        cache=tmp_path,
    )
    fitted = TaskPredictor.from_pretrained(results.model, device="cpu").model.description.recipe
    assert fitted.fit.batch_size == task_recipe("ner").fit.batch_size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "names"}, "there is no task 'names': choose one of classify, pos"),
        ({"dev": "nowhere.txt"}, "nowhere.txt does not exist: give a file of labeled data"),
        ({"settings": {"epochs": 3}}, "setting 'epochs': expected section.key, as in a recipe"),
        ({"settings": {"fit.epochs": 0}}, "fit.epochs is 0, expected at least 1"),
        ({"settings": {"fit.steps": 3}}, "steps"),
        ({"seeds": 0}, "seeds is 0, expected at least 1"),
        ({"recipe": "names"}, "names does not exist: give the path of a TOML file"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str, data: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "task": "ner",
        "train": data,
        "dev": data,
        "out": tmp_path / "run",
        "elmo": "none",
        "device": "cpu",
        "cache": tmp_path,
    }
    with pytest.raises(ElmoxError, match=message):
        fit(**options | changes)
    assert not (tmp_path / "run").exists()
