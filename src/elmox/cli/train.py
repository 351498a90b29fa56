"""`elmox train`: a recipe and a corpus to a biLM."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from elmox.cli.interruption import RESUME, resumable
from elmox.cli.model_options import Device, Json

if TYPE_CHECKING:
    from elmox.training.loop import Outcome

RecipePath: TypeAlias = Annotated[Path, typer.Argument(help="A TOML file.", show_default=False)]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: --set optim.lr=0.1. May be repeated."),
]


def command(
    recipe: RecipePath,
    out: Annotated[Path, typer.Option(help="The run's directory.", show_default=False)],
    settings: Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in OUT.")
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Train a biLM from a corpus that `elmox prepare` made.

    OUT/best is the model with the lowest held-out perplexity, OUT/last the latest one. Interrupted
    (Ctrl-C, SIGTERM, kill -9, a crash), the same command with --resume goes on exactly where the
    last checkpoint was made. On several GPUs: torchrun --nproc-per-node N -m elmox train ...
    """
    from elmox.training.loop import train
    from elmox.training.recipe import read_recipe

    with resumable(RESUME):
        outcome = train(
            read_recipe(recipe, settings or ()),
            out,
            resume=resume,
            device=device,
            log=lambda message: typer.echo(f"elmox: {message}", err=True),
            show_progress_bar=sys.stderr.isatty(),
        )
    if os.environ.get("RANK", "0") == "0":  # of several processes the first speaks
        _report(outcome, out, as_json)
    if outcome.signal is not None:
        raise typer.Exit(128 + outcome.signal)


def _report(outcome: "Outcome", out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(outcome)))
    elif outcome.signal is None:
        ended = "stopped early" if outcome.stopped_early else "done"
        best = outcome.best_perplexity
        held_out = "" if best is None else f", best held-out perplexity {best:.2f}"
        model = out / ("last" if best is None else "best")
        typer.echo(f"{ended} after {outcome.step} steps{held_out}: {model}")
    if outcome.signal is not None:
        typer.echo(f"elmox: stopped after step {outcome.step}: go on with --resume", err=True)
