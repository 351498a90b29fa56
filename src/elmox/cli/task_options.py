"""Options that the verbs of tasks share."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.tasks.registry import TASKS

if TYPE_CHECKING:
    from elmox.tasks.fit.session import TaskSession
    from elmox.tasks.recipe import TaskRecipe

    TaskName: TypeAlias = StrEnum
else:
    TaskName = StrEnum("TaskName", {name: name for name in TASKS})

Task: TypeAlias = Annotated[
    TaskName,
    typer.Argument(
        help="; ".join(f"{info.name}: {info.summary}" for info in TASKS.values()) + ".",
        show_default=False,
    ),
]
TrainFile: TypeAlias = Annotated[
    Path, typer.Option(help="Labeled data to train on.", show_default=False)
]
DevFile: TypeAlias = Annotated[
    Path, typer.Option(help="Labeled data that selects the best epoch.", show_default=False)
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
Seeds: TypeAlias = Annotated[
    int, typer.Option(help="Number of fits, with consecutive seeds.", min=1)
]
TaskSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting of the recipe.", show_default=False
    ),
]
Cache: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Directory for ELMo's layers; ELMOX_CACHE by default.", show_default=False),
]


def log(message: str) -> None:
    """Print a line of progress to stderr."""
    typer.echo(f"elmox: {message}", err=True)


def open_session(
    task: TaskName,
    train: Path,
    dev: Path,
    test: Path | None,
    recipe: "TaskRecipe",
    device: str | None,
    cache: Path | None,
) -> "TaskSession":
    """Read the task's files."""
    from elmox.tasks.fit.layers import cache_directory
    from elmox.tasks.fit.session import TaskSession

    return TaskSession(
        task.value,
        train,
        dev,
        test,
        head=recipe.head,
        device=device,
        cache=cache or cache_directory(),
        log=log,
        show_progress_bar=sys.stderr.isatty(),
    )


def check_data(*paths: Path | None) -> None:
    """Refuse missing files before anything else is done."""
    for path in paths:
        if path is not None and not path.exists():
            raise ElmoxError(f"{path} does not exist: give a file of labeled data")


def chosen_recipe(recipe: Path | None, settings: list[str] | None, **elmo: object) -> "TaskRecipe":
    """Return the recipe with its changes; `elmo` are options that set that section's settings."""
    from elmox.tasks.recipe import task_recipe

    changes = [setting("elmo", name, value) for name, value in elmo.items() if value is not None]
    return task_recipe(recipe, [*(settings or ()), *changes])


def setting(section: str, name: str, value: object) -> str:
    """Return an option as `--set` would take it; a name that looks like a number stays a name."""
    return f"{section}.{name}={json.dumps(value) if isinstance(value, str | bool) else value}"
