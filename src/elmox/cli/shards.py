"""Options of `elmox embed` for several processes or machines, and what they run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import PrintOptions, RunOptions

if TYPE_CHECKING:
    from elmox.elmo import Elmo
    from elmox.vectors.ray import ShardJob
    from elmox.vectors.shard_plan import ShardPlan


@dataclass(frozen=True)
class ShardOptions:
    """Options that divide the work."""

    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Embed only shard I of N (1/8 ... 8/8) into OUTPUT.shards; needs pyarrow.",
        ),
    ] = None
    merge: Annotated[bool, "Write OUTPUT from OUTPUT.shards when all shards are embedded."] = False
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Embed all shards with Ray and merge them: local, auto, HOST:PORT or "
            "ray://HOST:PORT; needs the extra ray.",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(help="Ray: number of workers; by default all that fit.", min=1)
    ] = None
    worker_memory: Annotated[
        float | None, typer.Option(metavar="GB", help="Ray: memory reserved per worker.", min=0.001)
    ] = None
    no_merge: Annotated[bool, "Ray: leave the parts in OUTPUT.shards."] = False

    @property
    def is_divided(self) -> bool:
        """Whether the work is divided; the options are checked."""
        chosen = [self.shard is not None, self.merge, self.ray is not None]
        if sum(chosen) > 1:
            raise typer.BadParameter("Choose one of --shard, --merge and --ray.")
        if self.ray is None and (self.workers or self.worker_memory or self.no_merge):
            raise typer.BadParameter("--workers, --worker-memory and --no-merge need --ray.")
        return any(chosen)

    def index(self) -> tuple[int, int]:
        """Return I and N of `--shard I/N`."""
        try:
            index, number = map(int, (self.shard or "").split("/"))
        except ValueError:
            raise typer.BadParameter(f"--shard {self.shard}: expected I/N, such as 1/8.") from None
        return index, number


def embed_shard(
    elmo: "Elmo", job: "ShardJob", shards: ShardOptions, run: PrintOptions, force: bool
) -> None:
    """Run `--shard` or `--merge`."""
    from elmox.io.progress import ReadingProgress
    from elmox.vectors.job import EmbedOptions
    from elmox.vectors.shard_plan import merge
    from elmox.vectors.shards import ShardEmbedder

    options = EmbedOptions(job.layers, job.dtype, job.batch_tokens)
    embedder = ShardEmbedder(elmo, job.source, job.output, options, tokenized=job.tokenized)
    plan = embedder.plan
    if shards.merge:
        report_merged(plan, *merge(plan, force), run)
        return
    numbers = plan.shard(*shards.index())
    missing = [] if plan.is_merged(force) else plan.missing(numbers)
    num_done, num_tokens = len(numbers) - len(missing), 0
    with ReadingProgress(
        len(numbers), num_done, run.show_progress_bar, run.log, " parts"
    ) as report:
        for count, part in enumerate(missing, start=num_done + 1):
            tokens = embedder.embed(part)
            num_tokens += tokens
            report.advance(count, tokens)
    values = {"folder": str(plan.folder), "num_parts": len(numbers), "num_tokens": num_tokens}
    run.result({**values, "num_resumed": num_done}, "")
    run.log(
        f"shard {shards.shard}: {len(numbers)} of {plan.num_parts} parts are in {plan.folder}; "
        f"{num_tokens} tokens embedded now"
    )


def embed_by_ray(job: "ShardJob", shards: ShardOptions, run: RunOptions, force: bool) -> None:
    """Run `--ray`."""
    from elmox.vectors.ray import RayWorkers, embed_with_ray
    from elmox.vectors.shard_plan import merge

    memory = None if shards.worker_memory is None else int(shards.worker_memory * 1e9)
    plan, num_tokens = embed_with_ray(
        job,
        shards.ray or "",
        RayWorkers(shards.workers, run.threads or 1, memory),
        force=force,
        show_progress_bar=run.show_progress_bar,
        log=run.log,
    )
    if shards.no_merge:
        values = {"folder": str(plan.folder), "num_parts": plan.num_parts, "num_tokens": num_tokens}
        run.result(values, "")
        run.log(f"{plan.num_parts} parts in {plan.folder}; {num_tokens} tokens embedded now")
    else:
        report_merged(plan, *merge(plan, force), run)


def report_merged(plan: "ShardPlan", num_lines: int, num_tokens: int, run: PrintOptions) -> None:
    """Print what has been merged."""
    values = {"output": str(plan.output), "num_lines": num_lines, "num_tokens": num_tokens}
    run.result(values, "")
    run.log(f"{num_lines} lines, {num_tokens} tokens in {plan.output}")
