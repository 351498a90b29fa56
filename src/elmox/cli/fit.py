"""`elmox fit`: a task model from labeled data, on top of a biLM."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.options import OutDirectory, RunOptions
from elmox.cli.task_options import FitOptions, TaskArgument, setting
from elmox.cli.verb import verb
from elmox.errors import ElmoxError


class PlaceName(StrEnum):
    """The place where ELMo joins."""

    input = "input"
    middle = "middle"
    output = "output"
    both = "both"


@verb(
    "elmox fit ner --train names.txt --dev names.txt --out runs/ner --recipe ner "
    "--set fit.epochs=1",
    "elmox fit ner --train names.txt --dev names.txt --out runs/plain --elmo none "
    "--set fit.epochs=1",
)
def command(
    task: TaskArgument,
    out: OutDirectory,
    layers: Annotated[
        str | None,
        typer.Option(metavar="LAYERS", help="mix (the default), top, or the index of one layer."),
    ] = None,
    place: Annotated[
        PlaceName | None,
        "Where ELMo joins the task's network; coref needs two layers in head.hidden for middle.",
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--lambda", help="Weight of the L2 penalty of the mix.")
    ] = None,
    finetune: Annotated[
        bool, "Fine-tune the biLM as well; its weights are saved with the model."
    ] = False,
    vectors: Annotated[
        Path | None, "Also use static word vectors: a text file of GloVe or word2vec."
    ] = None,
    *,
    data: FitOptions,
    run: RunOptions,
) -> None:
    """Fit a task model on labeled data.

    ELMo's layers are computed once per file and cached. Only the mix and the task's own network are
    trained, unless --finetune is given. An interrupted fit continues when it is run again, and a
    finished one with a larger fit.epochs.
    """
    from elmox.tasks.fit.api import fit

    if layers is not None and layers not in ("mix", "top") and not layers.isdecimal():
        raise ElmoxError(f"--layers {layers}: expected mix, top, or the index of a layer")
    recipe = data.read_recipe(
        *([] if vectors is None else [setting("words", "vectors", str(vectors))]),
        layers=int(layers) if layers is not None and layers.isdecimal() else layers,
        place=place,
        penalty=penalty,
        finetune=finetune or None,  # otherwise the recipe decides
    )
    if not recipe.elmo.is_used and (layers or place or penalty is not None):
        raise ElmoxError(
            "--elmo none: leave out --layers, --place and --lambda, which only apply to ELMo"
        )
    with resumable():
        results = fit(
            task.value,
            data.train,
            data.dev,
            data.test,
            out=out,
            recipe=recipe,
            seeds=data.seeds,
            device=run.device,
            cache=data.cache,
            log=run.log,
            show_progress_bar=run.show_progress_bar,
        )
    run.result(asdict(results), [*results.summary(), f"model {results.model}"])
