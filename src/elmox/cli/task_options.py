"""Options that the verbs of tasks share."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from elmox.cli.options import RunOptions, Settings
from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.tasks.registry import TASKS

if TYPE_CHECKING:
    from elmox.tasks.fit.session import TaskSession
    from elmox.tasks.recipe import TaskRecipe

    TaskName: TypeAlias = StrEnum
else:
    TaskName = StrEnum("TaskName", {name: name for name in TASKS})


TASKS_HELP = ", ".join(f"{info.name} ({info.summary})" for info in TASKS.values())
TaskArgument: TypeAlias = Annotated[TaskName, typer.Argument(help=f"One of {TASKS_HELP}.")]


COLUMN_OPTIONS = ("text_column", "label_column", "pair_column")


@dataclass(frozen=True)
class FitOptions:
    """The data and the recipe that task models are fitted with."""

    train: Annotated[Path, "Labeled data to train on."]
    dev: Annotated[Path, "Labeled data to select the best epoch on."]
    test: Annotated[Path | None, "Labeled data to score once, at the end."] = None
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="RECIPE", help="Name of a task, for its own recipe, or path of a TOML file."
        ),
    ] = None
    elmo: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help=f"The biLM; {BUNDLED} by default, none for a baseline without ELMo.",
        ),
    ] = None
    text_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of the text, for classify; text by default."),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of the label, for classify; label by default."),
    ] = None
    pair_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column of a second text, for classify."),
    ] = None
    seeds: Annotated[
        int, typer.Option(help="Number of fits, with one seed after another.", min=1)
    ] = 1
    settings: Settings = None
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for ELMo's layers; $ELMOX_CACHE by default.",
        ),
    ] = None

    def read_recipe(self, *changes: str, **elmo: object) -> "TaskRecipe":
        """Read the recipe and change it.

        Args:
            changes: `section.key=value`, after those of `--set`.
            elmo: settings of the section `elmo`; None leaves one as it is.
        """
        from elmox.tasks.recipe import task_recipe

        for path in (self.train, self.dev, self.test):
            if path is not None and not path.exists():
                raise ElmoxError(f"{path} does not exist: give a file of labeled data")
        sections = {
            "elmo": {"model": self.elmo, **elmo},
            "head": {key: getattr(self, key) for key in COLUMN_OPTIONS},
        }
        options = [
            setting(section, key, value)
            for section, values in sections.items()
            for key, value in values.items()
            if value is not None
        ]
        return task_recipe(self.recipe, [*(self.settings or ()), *changes, *options])

    def open_session(self, task: TaskName, recipe: "TaskRecipe", run: RunOptions) -> "TaskSession":
        """Read the task's files."""
        from elmox.tasks.fit.layers import cache_directory
        from elmox.tasks.fit.session import TaskSession

        return TaskSession(
            task.value,
            self.train,
            self.dev,
            self.test,
            head=recipe.head,
            device=run.device,
            cache=self.cache or cache_directory(),
            log=run.log,
            show_progress_bar=run.show_progress_bar,
        )


def setting(section: str, key: str, value: object) -> str:
    """Return an option as `--set` takes it: a name that looks like a number stays a name."""
    return f"{section}.{key}={json.dumps(value) if isinstance(value, str | bool) else value}"
