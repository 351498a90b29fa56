"""`elmox plan embed`: time, disk and price of embedding a large text."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import (
    TEXT_HELP,
    ComputeOptions,
    FileType,
    FileTypeOption,
    LayersOption,
    ModelArgument,
    ModelOptions,
    SecondsOption,
    TextOptions,
    above_zero,
    parse_layers,
)
from elmox.cli.verb import verb
from elmox.vectors.formats import ReadableFormat

if TYPE_CHECKING:
    from elmox.vectors.plan import EmbedPlan


@verb(
    "elmox plan embed english-small text.txt --seconds 1",
    "elmox plan embed english-small text.txt --seconds 1 --workers 16 --price 4.5 --threads 1",
)
def command(
    model: ModelArgument,
    input: Annotated[str, typer.Argument(help=TEXT_HELP)],
    tokens: Annotated[
        int, typer.Option(help="Number of tokens to embed on the cluster.", min=1)
    ] = 10**9,
    workers: Annotated[
        int, typer.Option(help="Processes of the cluster, each with --threads or a GPU.", min=1)
    ] = 1,
    price: Annotated[
        float | None,
        typer.Option(help="Price of the whole cluster per hour.", callback=above_zero),
    ] = None,
    layers: LayersOption = "all",
    dtype: FileTypeOption = FileType.float32,
    format: Annotated[ReadableFormat, "Format of the output."] = ReadableFormat.hdf5,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write the sample: on the disk of the output."),
    ] = None,
    seconds: SecondsOption = 10.0,
    *,
    lines: TextOptions,
    files: ModelOptions,
    run: ComputeOptions,
) -> None:
    """Estimate the time and the price of embedding many tokens.

    Embeds a sample of INPUT on this machine, and writes it. Workers are assumed to be as fast as
    this process, and not to slow each other down.
    """
    from elmox.vectors.plan import plan_embed

    plan = plan_embed(
        files.load(model, run, run.precision),
        input,
        layers=parse_layers(layers),
        dtype=dtype.value,
        tokenized=lines.tokenized,
        format=format.value,
        folder=folder,
        seconds=seconds,
    )
    parts, merge = plan.worker_seconds(tokens, workers), plan.merge_seconds(tokens, workers)
    cost = None if price is None else price * (parts + merge) / 3600
    values = {
        **asdict(plan),
        "num_tokens": tokens,
        "num_workers": workers,
        "num_bytes": plan.num_bytes(tokens),
        "worker_seconds": parts,
        "merge_seconds": merge,
        "total_seconds": parts + merge,
        "cost": cost,
    }
    run.result(values, _rows(plan, tokens, workers, cost))


def _rows(plan: "EmbedPlan", tokens: int, workers: int, cost: float | None) -> Iterator[str]:
    from elmox.io.progress import duration

    parts, merge = plan.worker_seconds(tokens, workers), plan.merge_seconds(tokens, workers)
    yield (
        f"measured  {plan.num_sampled:,} tokens, {1 / plan.worker_seconds(1):,.0f} tokens/s on "
        f"{plan.device}"
    )
    yield f"text      {tokens:,} tokens, {plan.num_bytes(tokens) / 1e9:,.1f} GB of vectors"
    after = f", then {duration(merge)} to merge the parts (one process)" if merge else ""
    yield f"time      {duration(parts)} with {workers} worker{'s' * (workers > 1)}{after}"
    if merge:
        yield f"in total  {duration(parts + merge)}"
    if cost is not None:
        yield f"price     {cost:,.2f}"
