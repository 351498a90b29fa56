"""Ready taggers: fitted task models in the directory of the biLM that they read.

    MODEL/taggers/pos/     a task model as `tasks/model.py` writes it, and scores.json

They are found by the name of an installed model: `english-small/pos`, or `pos` alone for the model
that comes with elmox.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmox.config import BUNDLED
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.files import to_json
from elmox.model.checkpoint import checkpoint_digest
from elmox.pretrained.native import TAGGERS_FOLDER, is_model_directory, read_directory
from elmox.pretrained.packages import installed_model, installed_names, taggers_of
from elmox.tasks.model import WeightType, is_task_model, read_model, write_model
from elmox.tasks.recipe import NO_ELMO
from elmox.tasks.registry import TASKS

SCORES_FILE = "scores.json"


def ready_taggers(model: Path) -> dict[str, Path]:
    """Return the ready taggers of a model directory, and of its second package, by name."""
    paths = [path for folder in taggers_of(model) for path in sorted(folder.iterdir())]
    return {path.name: path for path in paths if is_task_model(path)}


def find_tagger(name: str | Path) -> Path:
    """Return the directory of a fitted model.

    Args:
        name: its path; `MODEL/TASK` for a ready tagger of an installed model; or the name of a
            task for that of the model that comes with elmox. Existing paths come first.
    """
    path = Path(name)
    if path.exists() or not isinstance(name, str):
        return path
    model, slash, tagger = name.partition("/")
    if not slash and name in TASKS:
        model, tagger = BUNDLED, name
    elif not tagger or model not in installed_names():
        return path
    folder = installed_model(model)
    assert folder is not None
    taggers = ready_taggers(folder)
    if tagger not in taggers:
        raise ElmoxError(
            f"{model} has no ready tagger {tagger!r}: it has {', '.join(taggers) or 'none'}; give "
            "one of them, or the path of a fitted model"
        )
    return taggers[tagger]


def bilm_of(tagger: Path) -> Path | None:
    """Return the model directory that a ready tagger is part of; None if it is elsewhere.

    A tagger in a package of its own finds its biLM by the name in its recipe.
    """
    folder = tagger.absolute().parent
    is_ready = folder.name == TAGGERS_FOLDER and is_model_directory(folder.parent)
    return folder.parent if is_ready else None


def store_tagger(
    fitted: Path,
    out: Path,
    *,
    model: str = BUNDLED,
    digest: str | None = None,
    dtype: WeightType = "float16",
    scores: Mapping[str, Any] | None = None,
    force: bool = False,
) -> None:
    """Write a fitted model as a ready tagger, which refers to its biLM by name.

    Args:
        fitted: the directory of a fitted model.
        out: the directory to make.
        model: name of the biLM.
        digest: of the biLM, if it is known; another one is refused.
        dtype: number format of the weights.
        scores: what `scores.json` contains; None for what is next to the fitted model.
        force: replace an existing tagger.
    """
    task_model = read_model(fitted)
    description = task_model.description
    elmo = description.recipe.elmo
    if elmo.finetune or not elmo.is_used or elmo.model == NO_ELMO or description.elmo is None:
        raise ElmoxError(
            f"{fitted} does not read a frozen biLM: a ready tagger shares that of its package"
        )
    if digest is not None and description.elmo.digest != digest:
        raise ArgumentError(
            "{} was fitted with another biLM than {}: fit it with the directory that is packaged",
            fitted,
            Argument("model", model),
        )
    recipe = replace(description.recipe, elmo=replace(elmo, model=model))
    task_model.description = replace(description, recipe=recipe)
    write_model(task_model, out, force, dtype)
    if scores is None and (fitted / SCORES_FILE).is_file():
        scores = json.loads((fitted / SCORES_FILE).read_text("utf-8"))
    if scores is not None:
        (out / SCORES_FILE).write_bytes(to_json(dict(scores)))


def ready_to_package(
    model: Path, fitted: Mapping[str, Path], scratch: Path, name: str, dtype: WeightType
) -> dict[str, Path]:
    """Write fitted models as ready taggers of a model directory, for its package.

    Args:
        model: the model directory.
        fitted: directories of fitted models by the taggers' names.
        scratch: an existing directory for the taggers.
        name: of the packaged model.
        dtype: number format of the weights.

    Returns:
        The directories of the taggers by name.
    """
    if not fitted:
        return {}
    digest = checkpoint_digest(read_directory(model), with_state=False)
    for tagger, path in fitted.items():
        if not tagger.isidentifier():
            raise ElmoxError(f"tagger {tagger!r}: expected a name such as pos")
        store_tagger(path, scratch / tagger, model=name, digest=digest, dtype=dtype)
    return {tagger: scratch / tagger for tagger in fitted}
