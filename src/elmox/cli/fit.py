"""`elmox fit`: a task's model from labelled data, on top of a frozen biLM."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.model_options import Device, Json
from elmox.config import BUNDLED
from elmox.errors import ElmoxError


class TaskName(StrEnum):
    """What can be fitted."""

    pos = "pos"
    ner = "ner"
    chunk = "chunk"


class PlaceName(StrEnum):
    """Where ELMo joins."""

    input = "input"
    middle = "middle"
    output = "output"
    both = "both"


def command(
    task: Annotated[TaskName, typer.Argument(help="The task.", show_default=False)],
    train: Annotated[Path, typer.Option(help="Labelled data to learn from.", show_default=False)],
    dev: Annotated[Path, typer.Option(help="Labelled data by which the best epoch is chosen.")],
    out: Annotated[Path, typer.Option(help="The run's directory.", show_default=False)],
    test: Annotated[
        Path | None, typer.Option(help="Labelled data to score once, at the end.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="A recipe, a TOML file.")] = None,
    elmo: Annotated[
        str | None, typer.Option(help=f"The biLM, {BUNDLED} by default; none for a baseline.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="mix (the default), top, or one layer's number.")
    ] = None,
    place: Annotated[
        PlaceName | None, typer.Option(help="Where ELMo joins the task's model.")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--lambda", help="Weight of the mix's L2 penalty.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Fits, with one seed after another.", min=1)] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of the recipe."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where ELMo's layers are kept; ELMOX_CACHE by default.")
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Fit a tagger: part-of-speech tags, named entities or chunks.

    ELMo's layers are computed once for each file and kept; only the mix and the task's own model
    are learned. An interrupted fit goes on when the same command is given again.
    """
    from elmox.tasks.layers import cache_directory
    from elmox.tasks.recipe import task_recipe
    from elmox.tasks.session import fit_task

    for path in filter(None, (train, dev, test)):
        if not path.is_file():
            raise ElmoxError(f"{path} does not exist: give a file of labelled data")
    flags = {"model": elmo, "layers": layers, "place": place, "penalty": penalty}
    changes = [f"elmo.{name}={value}" for name, value in flags.items() if value is not None]
    chosen = task_recipe(recipe, [*(settings or ()), *changes])
    found = fit_task(
        task.value,
        chosen,
        train,
        dev,
        out,
        test=test,
        num_seeds=seeds,
        device=device,
        cache=cache or cache_directory(),
        say=lambda message: typer.echo(f"elmox: {message}", err=True),
        show_progress_bar=sys.stderr.isatty(),
    )
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    for part, mean in found.mean.items():
        spread = f" +- {found.deviation[part]:.2f} over {seeds} seeds" if seeds > 1 else ""
        typer.echo(f"{part} {found.metric} {mean:.2f}{spread}")
    typer.echo(f"model {found.best.model}")
