"""`elmox fit`: a task's model from labeled data, on top of a biLM."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.options import OutDirectory, RunOptions, Settings
from elmox.cli.task_options import (
    Cache,
    DevFile,
    ElmoModel,
    RecipeFile,
    Seeds,
    Task,
    TestFile,
    TrainFile,
    check_data,
    chosen_recipe,
    open_session,
    setting,
)
from elmox.cli.verb import verb
from elmox.errors import ElmoxError


class PlaceName(StrEnum):
    """Where ELMo joins."""

    input = "input"
    middle = "middle"
    output = "output"
    both = "both"


@verb(
    "elmox fit ner --train names.txt --dev names.txt --out runs/names-2 --set fit.epochs=2",
    "elmox fit ner --train names.txt --dev names.txt --out runs/plain --elmo none "
    "--set fit.epochs=1",
)
def command(
    task: Task,
    train: TrainFile,
    dev: DevFile,
    out: OutDirectory,
    test: TestFile = None,
    recipe: RecipeFile = None,
    elmo: ElmoModel = None,
    layers: Annotated[
        str | None, typer.Option(help="mix (the default), top, or one layer's number.")
    ] = None,
    place: Annotated[
        PlaceName | None,
        typer.Option(
            help="Where ELMo joins the task's model; for the middle, coref needs two layers in "
            "head.hidden."
        ),
    ] = None,
    penalty: Annotated[
        float | None, typer.Option("--lambda", help="Weight of the mix's L2 penalty.")
    ] = None,
    finetune: Annotated[
        bool,
        typer.Option(
            "--finetune", help="Learn the whole biLM too; the fitted model then holds its own."
        ),
    ] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Static word vectors too, GloVe's or word2vec's text.", show_default=False
        ),
    ] = None,
    seeds: Seeds = 1,
    settings: Settings = None,
    cache: Cache = None,
    *,
    run: RunOptions,
) -> None:
    """Fit a task's model on labeled data.

    Tasks: parts of speech, names, chunks, semantic roles (srl), dependencies (parse), entailment
    (nli), sentiment (sst), question answering (qa), coreference (coref).

    ELMo's layers are computed once for each file and kept; only the mix and the task's own model
    are learned, but for --finetune. An interrupted fit goes on when the same command is given
    again.
    """
    check_data(train, dev, test)
    changes = list(settings or ())
    if vectors is not None:
        changes.append(setting("words", "vectors", str(vectors)))
    if layers is not None and layers not in ("mix", "top") and not layers.isdecimal():
        raise ElmoxError(f"--layers {layers}: expected mix, top, or a layer's number")
    number = int(layers) if layers is not None and layers.isdecimal() else layers
    chosen = chosen_recipe(
        recipe,
        changes,
        model=elmo,
        layers=number,
        place=place,
        penalty=penalty,
        finetune=finetune or None,  # else the recipe's word counts
    )
    if not chosen.elmo.is_used and (layers or place or penalty is not None):
        raise ElmoxError("--elmo none: --layers, --place and --lambda say how ELMo goes in")
    with resumable():
        session = open_session(task, train, dev, test, cache, run)
        found = session.fit(chosen, out, num_seeds=seeds)
    rows = []
    for part, mean in found.mean.items():
        spread = f" +- {found.deviation[part]:.2f} over {seeds} seeds" if seeds > 1 else ""
        rows.append(f"{part} {found.metric} {mean:.2f}{spread}")
    run.result(asdict(found), [*rows, f"model {found.best.model}"])
