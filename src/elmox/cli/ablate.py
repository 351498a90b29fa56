"""`elmox ablate`: which layers, which place, how much data; the paper's analyses of a task."""

import json
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.model_options import Device, Json
from elmox.cli.probe_files import write_files
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
    open_session,
)
from elmox.io.files import write_together

if TYPE_CHECKING:
    from elmox.tasks.fit.ablation import Ablation


class StudyName(StrEnum):
    """What is compared."""

    layers = "layers"
    place = "place"
    samples = "samples"


def command(
    task: Task,
    study: Annotated[
        StudyName,
        typer.Argument(
            help="layers: none, 0, top, mixes; place: input, output, both; samples: 0.1% to all of "
            "the data, without and with ELMo.",
            show_default=False,
        ),
    ],
    train: TrainFile,
    dev: DevFile,
    out: Annotated[Path, typer.Option(help="A directory for fits and report.", show_default=False)],
    test: TestFile = None,
    recipe: RecipeFile = None,
    elmo: ElmoModel = None,
    seeds: Seeds = 1,
    settings: TaskSettings = None,
    cache: Cache = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Fit a task's model in several variants and compare them.

    Prints a table; it is also written to OUT as .md, .json, .png and .svg, with the learned mixes.
    Fits that are there already, also of the other studies, are not done again. Of little data,
    shares that are the same examples, or teach nothing, are left out.
    """
    from elmox.bench.machine import machine_facts, machine_line
    from elmox.inference.device import resolve_device
    from elmox.tasks.fit.ablation import ablate

    check_data(train, dev, test)
    chosen = chosen_recipe(recipe, settings, model=elmo)
    about = {
        "command": f"`elmox {shlex.join(sys.argv[1:])}`",
        "ELMo": chosen.elmo.model,
        "machine": machine_line(machine_facts(resolve_device(device))),
    }
    with resumable():
        session = open_session(task, train, dev, test, device, cache)
        found = ablate(
            session, chosen, study.value, out / "fits", num_seeds=seeds, about=about, log=log
        )
        write_study(found, out)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.to_markdown(), nl=as_json)


def write_study(found: "Ablation", out: Path) -> None:
    """A study's files: OUT/STUDY as .md, .json, .png and .svg, and a picture of the mixes."""
    from elmox import plots

    write_files(found, out, found.study, force=True)
    figure = found.picture_of_mixes() if plots.can_draw() else None
    if figure is not None:
        write_together(plots.picture_files(figure, out / f"{found.study}-mixes"), force=True)
