"""`elmox train`: a recipe and a corpus to a biLM."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from elmox.cli.interruption import RESUME, resumable
from elmox.cli.options import OutDirectory, RunOptions, Settings
from elmox.cli.verb import verb
from elmox.recipes import recipe_names

if TYPE_CHECKING:
    from elmox.training.loop import Outcome

RecipeArgument: TypeAlias = Annotated[
    str, typer.Argument(help=f"One of {', '.join(recipe_names())}, or the path of a TOML file.")
]


@verb(
    "elmox train tiny --out runs/mine --set train.max_steps=20",
    "elmox train tiny --out runs/mine --set train.max_steps=20 --resume",
)
def command(
    recipe: RecipeArgument,
    out: OutDirectory,
    settings: Settings = None,
    resume: Annotated[bool, "Continue from the last checkpoint in DIR."] = False,
    *,
    run: RunOptions,
) -> None:
    """Train a biLM on a corpus made by elmox prepare.

    DIR/best is the model with the lowest held-out perplexity, DIR/last the latest one. After an
    interruption of any kind, the same command with --resume continues exactly from the last
    checkpoint. On several GPUs: torchrun --nproc-per-node N -m elmox train RECIPE --out DIR
    """
    from elmox.training.loop import train
    from elmox.training.recipe import read_recipe

    with resumable(RESUME):
        outcome = train(
            read_recipe(recipe, settings or ()),
            out,
            resume=resume,
            device=run.device,
            log=run.log,
            show_progress_bar=run.show_progress_bar,
        )
    if is_first_process():
        _report(outcome, out, run)
    if outcome.signal is not None:
        raise typer.Exit(128 + outcome.signal)


def is_first_process() -> bool:
    """Return whether this is the process that prints, of several that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def _report(outcome: "Outcome", out: Path, run: RunOptions) -> None:
    if outcome.signal is None:
        ended = "stopped early" if outcome.stopped_early else "done"
        best = outcome.best_perplexity
        held_out = "" if best is None else f", best held-out perplexity {best:.2f}"
        model = out / ("last" if best is None else "best")
        run.result(asdict(outcome), [f"{ended} after {outcome.step} steps{held_out}: {model}"])
    else:
        run.result(asdict(outcome), [])
        run.log(f"stopped after step {outcome.step}; {RESUME}")
