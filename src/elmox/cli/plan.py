"""`elmox plan`: what a recipe will cost."""

import json
import math
from dataclasses import asdict
from typing import Annotated

import typer

from elmox.cli.model_options import Device, Json
from elmox.cli.train import RecipePath, Settings


def _above_zero(value: float) -> float:
    if not 0 < value < math.inf:
        raise typer.BadParameter(f"{value:g} is not a number above 0.")
    return value


def command(
    recipe: RecipePath,
    settings: Settings = None,
    devices: Annotated[
        list[int] | None,
        typer.Option(help="Compute for so many devices too. May be repeated.", min=1),
    ] = None,
    bandwidth: Annotated[
        float,
        typer.Option(
            help="Between devices, in GB/s: 300 NVLink, 25 PCIe, 1.2 10-GbE.", callback=_above_zero
        ),
    ] = 25.0,
    seconds: Annotated[
        float, typer.Option(help="How long to measure.", callback=_above_zero)
    ] = 5.0,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Parameters, memory and time of a recipe, measured in a few steps on the device at hand.

    Time is that of training alone: evaluations on held-out text and checkpoints come on top.
    """
    from elmox.io.progress import duration
    from elmox.training.plan import plan
    from elmox.training.recipe import read_recipe

    found = plan(read_recipe(recipe, settings or ()), device=device, seconds=seconds)
    several = {n: found.seconds_on(n, bandwidth * 1e9) for n in devices or ()}
    if as_json:
        values = {**asdict(found), "total_seconds": found.total_seconds}
        typer.echo(json.dumps({**values, "seconds_on": several}))
        return
    peak = "" if found.peak_bytes is None else f", {_size(found.peak_bytes)} measured at most"
    lines = [
        f"parameters   {found.num_body:,} in the biLM, {found.num_softmax:,} in the softmax",
        f"memory       {_size(found.weight_bytes)} for weights, gradients and optimizer, about "
        f"{_size(found.activation_bytes)} for the LSTMs' activations{peak}",
        f"text         {found.num_steps:,} steps of {found.tokens_per_step:,} tokens, "
        f"{found.num_epochs:g} epochs",
        f"time         {found.tokens_per_second:,.0f} tokens/s on {found.device}: "
        f"{duration(found.total_seconds)}, evaluations not included",
    ]
    for number, total in several.items():
        exchanged = f"{_size(found.exchanged_bytes)} exchanged a step at {bandwidth:g} GB/s"
        lines.append(f"on {number:<9} {duration(total)}, with {exchanged} (computed)")
    if several:
        lines.append("computed by  step / N + 2 (N - 1) / N * bytes exchanged / bandwidth")
    typer.echo("\n".join(lines))


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
