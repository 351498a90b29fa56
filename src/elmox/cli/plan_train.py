"""`elmox plan train`: memory and time that training a recipe takes."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import RunOptions, SecondsOption, Settings, above_zero
from elmox.cli.train import RecipeArgument, is_first_process
from elmox.cli.verb import verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elmox.training.plan import Plan

DEFAULT_BANDWIDTH = 25.0  # GB/s


@verb(
    "elmox plan train tiny --seconds 1",
    "elmox plan train tiny --seconds 1 --devices 8 --bandwidth 300",
)
def command(
    recipe: RecipeArgument,
    settings: Settings = None,
    devices: Annotated[
        list[int] | None,
        typer.Option(help="Also compute the time on N devices. May be repeated.", min=1),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="GB/s between devices: 300 for NVLink, 25 for PCIe, 1.2 for 10-GbE. By default "
            "measured under torchrun, otherwise 25.",
            callback=above_zero,
        ),
    ] = None,
    seconds: SecondsOption = 5.0,
    *,
    run: RunOptions,
) -> None:
    """Estimate the memory and the time that training a recipe takes.

    Measures a few steps on this device. Evaluations and checkpoints are not included. Without a
    verb of its own: elmox plan RECIPE

    To also measure the exchange and the steps of several GPUs: torchrun --nproc-per-node N -m elmox
    plan RECIPE
    """
    from elmox.training.plan import plan
    from elmox.training.recipe import read_recipe

    measured = plan(read_recipe(recipe, settings or ()), device=run.device, seconds=seconds)
    if not is_first_process():
        return
    assumed = bandwidth or (measured.bandwidth or DEFAULT_BANDWIDTH * 1e9) / 1e9
    numbers = {*(devices or ()), *([measured.num_processes] if measured.bandwidth else ())}
    times = {n: measured.seconds_on(n, assumed * 1e9) for n in sorted(numbers)}
    values = {**asdict(measured), "total_seconds": measured.total_seconds, "seconds_on": times}
    run.result(values, _rows(measured, times, assumed))


def _rows(plan: "Plan", times: dict[int, float], bandwidth: float) -> "Iterator[str]":
    from elmox.io.progress import duration

    peak = "" if plan.peak_bytes is None else f", {_size(plan.peak_bytes)} measured at most"
    yield f"parameters   {plan.num_body:,} in the biLM, {plan.num_softmax:,} in the softmax"
    yield (
        f"memory       {_size(plan.weight_bytes)} for weights, gradients and optimizer, about "
        f"{_size(plan.activation_bytes)} for LSTM activations{peak}"
    )
    yield (
        f"text         {plan.num_steps:,} steps of {plan.tokens_per_step:,} tokens, "
        f"{plan.num_epochs:g} epochs"
    )
    yield (
        f"time         {plan.tokens_per_second:,.0f} tokens/s on {plan.device}: "
        f"{duration(plan.total_seconds)}, evaluations not included"
    )
    if plan.bandwidth is not None and plan.joint_step_seconds is not None:
        joint = plan.num_steps * plan.joint_step_seconds
        yield (
            f"together     {duration(joint)} on {plan.num_processes}, {plan.bandwidth / 1e9:.3g} "
            "GB/s between them (measured)"
        )
    for number, seconds in times.items():
        exchanged = f"{_size(plan.exchanged_bytes)} exchanged per step at {bandwidth:.3g} GB/s"
        yield f"on {number:<9} {duration(seconds)}, with {exchanged} (computed)"
    if times:
        yield "computed by  step / N + 2 (N - 1) / N * bytes exchanged / bandwidth"


def _size(num_bytes: float) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
