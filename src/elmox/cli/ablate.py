"""`elmox ablate`: which layers, which place, how much data; the paper's analyses of a task."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.options import OutDirectory, RunOptions, command_line
from elmox.cli.reports import write_report
from elmox.cli.task_options import FitOptions, TaskArgument
from elmox.cli.verb import verb
from elmox.io.files import write_together

if TYPE_CHECKING:
    from elmox.io.progress import Log
    from elmox.tasks.fit.ablation import Ablation


class StudyName(StrEnum):
    """A comparison of variants."""

    layers = "layers"
    place = "place"
    samples = "samples"


@verb(
    "elmox ablate ner place --train names.txt --dev names.txt --out runs/place --set fit.epochs=1",
    "elmox ablate ner layers --train names.txt --dev names.txt --out runs/layers "
    "--set fit.epochs=1",
)
def command(
    task: TaskArgument,
    study: Annotated[
        StudyName,
        typer.Argument(
            help="layers (none, 0, top, mixes), place (input, output, both) or samples (0.1% to "
            "all of the data, without and with ELMo).",
        ),
    ],
    out: OutDirectory,
    *,
    data: FitOptions,
    run: RunOptions,
) -> None:
    """Fit variants of a task model and compare them.

    Prints a table, and writes it to DIR as .md, .json, .png and .svg, with the learned mixes. Fits
    that exist already, also those of other studies, are reused. On small data sets, duplicate or
    untrainable shares are skipped.
    """
    from elmox.bench.machine import machine_facts, machine_line
    from elmox.inference.device import resolve_device
    from elmox.tasks.fit.ablation import ablate

    recipe = data.read_recipe()
    about = {
        "command": f"`{command_line()}`",
        "ELMo": recipe.elmo.model,
        "machine": machine_line(machine_facts(resolve_device(run.device))),
    }
    with resumable():
        ablation = ablate(
            data.open_session(task, recipe, run),
            recipe,
            study.value,
            out / "fits",
            num_seeds=data.seeds,
            about=about,
            log=run.log,
        )
        write_study(ablation, out, run.log)
    run.result(ablation.to_dict(), ablation.to_markdown())


def write_study(ablation: "Ablation", out: Path, log: "Log") -> None:
    """A study's files: OUT/STUDY as .md, .json, .png and .svg, and a picture of the mixes."""
    from elmox import plots

    write_report(ablation, out, ablation.study, force=True, log=log)
    figure = ablation.picture_of_mixes() if plots.can_draw() else None
    if figure is not None:
        write_together(plots.picture_files(figure, out / f"{ablation.study}-mixes"), force=True)
