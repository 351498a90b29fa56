"""Fits of tiny models, as the tests of tasks need them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elmox.tasks.fit.api import fit
from elmox.tasks.fit.results import Results
from elmox.tasks.predictor import Item, TaskPredictor
from elmox.tasks.recipe import TaskRecipe


def fit_task(
    task: str, recipe: TaskRecipe, train: Path, dev: Path, out: Path, **options: Any
) -> Results:
    """Fit with a recipe; `options` are those of `elmox.fit`."""
    return fit(task, train, dev, out=out, recipe=recipe, **options)


def predicted(predictor: TaskPredictor, texts: Iterable[Item]) -> list[dict[str, Any]]:
    """The outputs for texts as `elmox tag` prints them."""
    return [output.to_dict() for output in predictor.predict(texts)]


def tag_objects(
    predictor: TaskPredictor, objects: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The outputs for JSON objects as `elmox tag` prints them, one for each sentence of a text."""
    return [output for values in objects for output in predictor.predict_json(values)]
