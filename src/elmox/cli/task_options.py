"""Options that the verbs of tasks share."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from elmox.cli.options import RunOptions
from elmox.config import BUNDLED
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.fit.session import TaskSession
    from elmox.tasks.recipe import TaskRecipe


class TaskName(StrEnum):
    """What can be fitted."""

    pos = "pos"
    ner = "ner"
    chunk = "chunk"
    srl = "srl"
    parse = "parse"
    nli = "nli"
    sst = "sst"
    qa = "qa"
    coref = "coref"


Task: TypeAlias = Annotated[TaskName, typer.Argument(help="The task.", show_default=False)]
TrainFile: TypeAlias = Annotated[
    Path, typer.Option(help="Labeled data to learn from.", show_default=False)
]
DevFile: TypeAlias = Annotated[
    Path, typer.Option(help="Labeled data by which the best epoch is chosen.", show_default=False)
]
TestFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="Labeled data to score once, at the end.", show_default=False)
]
RecipeFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="A recipe, a TOML file.", show_default=False)
]
ElmoModel: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"The biLM, {BUNDLED} by default; none for no ELMo.", show_default=False),
]
Seeds: TypeAlias = Annotated[int, typer.Option(help="Fits, one seed after another.", min=1)]
Cache: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Where ELMo's layers are kept; ELMOX_CACHE by default.", show_default=False),
]


def open_session(
    task: TaskName,
    train: Path,
    dev: Path,
    test: Path | None,
    cache: Path | None,
    run: RunOptions,
) -> "TaskSession":
    """Read the task's files."""
    from elmox.tasks.fit.layers import cache_directory
    from elmox.tasks.fit.session import TaskSession

    return TaskSession(
        task.value,
        train,
        dev,
        test,
        device=run.device,
        cache=cache or cache_directory(),
        log=run.log,
        show_progress_bar=run.show_progress_bar,
    )


def check_data(*paths: Path | None) -> None:
    """Files that are not there are found before anything else is done."""
    for path in paths:
        if path is not None and not path.exists():
            raise ElmoxError(f"{path} does not exist: give a file of labeled data")


def chosen_recipe(recipe: Path | None, settings: list[str] | None, **elmo: object) -> "TaskRecipe":
    """The recipe with its changes; `elmo` are options that change settings of that section."""
    from elmox.tasks.recipe import task_recipe

    changes = [setting("elmo", name, value) for name, value in elmo.items() if value is not None]
    return task_recipe(recipe, [*(settings or ()), *changes])


def setting(section: str, name: str, value: object) -> str:
    """What `--set` would be given for an option: a name that looks like a number stays a name."""
    return f"{section}.{name}={json.dumps(value) if isinstance(value, str | bool) else value}"
