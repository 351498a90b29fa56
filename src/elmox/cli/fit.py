"""`elmox fit`: a task's model from labeled data, on top of a biLM."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.model_options import Device, Json
from elmox.cli.task_options import (
    Cache,
    DevFile,
    ElmoModel,
    RecipeFile,
    Seeds,
    Task,
    TaskSettings,
    TestFile,
    TrainFile,
    check_data,
    chosen_recipe,
    log,
    setting,
)
from elmox.errors import ElmoxError


class PlaceName(StrEnum):
    """Where ELMo joins."""

    input = "input"
    middle = "middle"
    output = "output"
    both = "both"


def command(
    task: Task,
    train: TrainFile,
    dev: DevFile,
    out: Annotated[Path, typer.Option(help="The run's directory.", show_default=False)],
    test: TestFile = None,
    recipe: RecipeFile = None,
    elmo: ElmoModel = None,
    layers: Annotated[
        str | None, typer.Option(help="mix (the default), top, or one layer's number.")
    ] = None,
    place: Annotated[
        PlaceName | None,
        typer.Option(
            help="Where ELMo joins the task's network; middle needs two layers in head.hidden."
        ),
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--lambda", help="Weight of the mix's L2 penalty.")
    ] = None,
    finetune: Annotated[
        bool,
        typer.Option(
            "--finetune", help="Fine-tune the biLM as well; its weights are saved with the model."
        ),
    ] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Static word vectors to add, in GloVe's or word2vec's text format.",
            show_default=False,
        ),
    ] = None,
    seeds: Seeds = 1,
    settings: TaskSettings = None,
    cache: Cache = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Fit a task's model on labeled data.

    ELMo's layers are computed once for each file and cached; only the mix and the task's network
    are trained, unless --finetune is given. An interrupted fit continues when the same command is
    given again.
    """
    from elmox.tasks.fit.api import fit

    check_data(train, dev, test)
    changes = list(settings or ())
    if vectors is not None:
        changes.append(setting("words", "vectors", str(vectors)))
    if layers is not None and layers not in ("mix", "top") and not layers.isdecimal():
        raise ElmoxError(f"--layers {layers}: expected mix, top, or a layer's number")
    chosen = chosen_recipe(
        recipe,
        changes,
        model=elmo,
        layers=int(layers) if layers is not None and layers.isdecimal() else layers,
        place=place,
        penalty=penalty,
        finetune=finetune or None,  # without the flag the recipe decides
    )
    if not chosen.elmo.is_used and (layers or place or penalty is not None):
        raise ElmoxError("--elmo none: --layers, --place and --lambda need an ELMo, leave them out")
    with resumable():
        results = fit(
            task.value,
            train,
            dev,
            test,
            out=out,
            recipe=chosen,
            seeds=seeds,
            device=device,
            cache=cache,
            log=log,
            show_progress_bar=sys.stderr.isatty(),
        )
    if as_json:
        typer.echo(json.dumps(asdict(results)))
        return
    for line in results.summary():
        typer.echo(line)
    typer.echo(f"model {results.model}")
