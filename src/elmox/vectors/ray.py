"""Shards scheduled by Ray: the parts of `shard_plan`, embedded by a pool of actors.

Ray's object store carries numbers of parts, never vectors: actors write the parts to a file system
that all machines share. Ray restarts an actor that dies and repeats its part. The driver keeps no
state, so after its death the same call continues with the parts that are missing.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from elmox.errors import ElmoxError, install_hint
from elmox.inference.layer_choice import Layers
from elmox.io.progress import Log, ReadingProgress
from elmox.vectors.layout import DType
from elmox.vectors.shard_plan import ShardPlan, check_divisible, check_output

LOCAL = "local"
_POLL_SECONDS = 5.0
_STRAGGLER = 3.0  # times the longest duration of a part


@dataclass(frozen=True)
class ShardJob:
    """The arguments of a `ShardEmbedder`, for another process; described in `embed_file`.

    Attributes:
        model: a name or a path that all machines can read.
        arguments: further arguments of `Elmo.from_pretrained`.
    """

    model: str
    source: str
    output: str
    layers: Layers = "all"
    dtype: DType = "float32"
    tokenized: bool = False
    batch_tokens: int | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def with_whole_paths(self) -> "ShardJob":
        """Return the same job for processes in other directories."""
        model = os.path.abspath(self.model) if os.path.exists(self.model) else self.model
        files = {
            key: value.absolute() if isinstance(value, Path) else value
            for key, value in self.arguments.items()
        }
        return replace(
            self,
            model=model,
            source=os.path.abspath(self.source),
            output=os.path.realpath(self.output),
            arguments=files,
        )


@dataclass(frozen=True)
class RayWorkers:
    """The pool of actors.

    Attributes:
        number: number of actors; None for as many as the cluster has room for.
        threads: CPU threads of each.
        memory: main memory in bytes that Ray reserves for each; None to reserve none.
    """

    number: int | None = None
    threads: int = 1
    memory: int | None = None


def embed_with_ray(
    job: ShardJob,
    address: str = LOCAL,
    workers: RayWorkers | None = None,
    *,
    force: bool = False,
    show_progress_bar: bool = False,
    log: Log | None = None,
) -> tuple[ShardPlan, int]:
    """Embed the missing parts of a text on a Ray cluster.

    Args:
        job: what to embed.
        address: `local` starts Ray on this machine, `auto` joins the running cluster, and
            `HOST:PORT` or `ray://HOST:PORT` another one.
        workers: the actors; each gets a GPU if the job's device is one.
        force: continue although there is another output, which the merged parts shall replace.
        show_progress_bar: show a bar on stderr.
        log: without a bar, receives a line about the progress every 30 seconds.

    Returns:
        The plan, whose parts are all there now, and the tokens that this call embedded.
    """
    workers, job = workers or RayWorkers(), job.with_whole_paths()
    check_divisible(job.source, job.output)
    check_output(Path(job.output), force)  # before workers are started for nothing
    num_gpus = 1 if str(job.arguments.get("device") or "").startswith("cuda") else 0
    with _connected(address, workers) as ray:
        options: dict[str, Any] = {
            "num_cpus": workers.threads,
            "num_gpus": num_gpus,
            "max_restarts": -1,
            "max_task_retries": -1,
        }
        if workers.memory is not None:
            options["memory"] = workers.memory
        actor = ray.remote(**options)(_Worker)
        number = workers.number or _room(ray, workers.threads, num_gpus)
        actors = [actor.remote(job, workers.threads) for _ in range(number)]
        plan = cast(ShardPlan, _get(ray, actors[0].plan.remote()))
        missing = [] if plan.is_merged(force) else plan.missing()
        num_done = plan.num_parts - len(missing)
        num_tokens = 0
        with ReadingProgress(plan.num_parts, num_done, show_progress_bar, log, " parts") as report:
            for tokens in _schedule(ray, actors[: max(1, len(missing))], plan, missing):
                num_done += 1
                num_tokens += tokens
                report.advance(num_done, tokens)
    return plan, num_tokens


def _schedule(
    ray: ModuleType, actors: list[Any], plan: ShardPlan, parts: list[int]
) -> Iterator[int]:
    """Let the actors write some parts, and yield the number of tokens of each.

    An actor gets a part when it is idle, so one that waits for room in the cluster holds none. When
    only parts of actors that do not answer are left, on a lost machine for instance, idle ones
    write them too; whichever comes first counts.
    """
    shared = ray.put(plan)
    todo, left = deque(parts), set(parts)
    running: dict[Any, tuple[Any, int | None, float]] = {
        actor.ready.remote(): (actor, None, time.monotonic()) for actor in actors
    }
    idle: list[Any] = []
    longest = 0.0
    while left:
        finished, _ = ray.wait(list(running), timeout=_POLL_SECONDS)
        for reference in finished:
            actor, part, _ = running.pop(reference)
            idle.append(actor)
            tokens, seconds = _get(ray, reference)
            if part in left:
                longest = max(longest, seconds)
                left.discard(part)
                yield tokens
        now = time.monotonic()
        if idle and not todo:
            late = max(_POLL_SECONDS, _STRAGGLER * longest)
            stuck = [p for _, p, began in running.values() if p in left and now - began > late]
            todo.extend(part for part in stuck if part is not None)
        while idle and todo:
            actor, part = idle.pop(), todo.popleft()
            running[actor.embed.remote(shared, part)] = (actor, part, now)


class _Worker:
    """An actor: loads the model when it is first needed, also after a restart."""

    def __init__(self, job: ShardJob, threads: int) -> None:
        # For libraries that are loaded later; waiting threads must not take the CPU of others.
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        self._job, self._threads = job, threads
        self._embedder: Any = None

    def ready(self) -> tuple[int, float]:
        """Return when the actor is running."""
        return 0, 0.0

    def plan(self) -> ShardPlan:
        """Divide the text into parts."""
        return cast(ShardPlan, self._load(None).plan)

    def embed(self, plan: ShardPlan, number: int) -> tuple[int, float]:
        """Write a part; return its number of tokens, and the seconds without loading the model."""
        embedder = self._load(plan)
        began = time.monotonic()
        return cast(int, embedder.embed(number)), time.monotonic() - began

    def _load(self, plan: ShardPlan | None) -> Any:
        if self._embedder is None:
            import torch

            from elmox.elmo import Elmo
            from elmox.vectors.job import EmbedOptions
            from elmox.vectors.shards import ShardEmbedder

            torch.set_num_threads(self._threads)
            job = self._job
            self._embedder = ShardEmbedder(
                Elmo.from_pretrained(job.model, **job.arguments),
                job.source,
                job.output,
                EmbedOptions(job.layers, job.dtype, job.batch_tokens),
                tokenized=job.tokenized,
                plan=plan,
            )
        return self._embedder


@contextmanager
def _connected(address: str, workers: RayWorkers) -> Iterator[ModuleType]:
    """Connect to a cluster, or start one on this machine for the time of a `with`."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError as error:
        raise ElmoxError(f"Ray is not installed: {install_hint('ray')}") from error
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        cpus = (workers.number or 0) * workers.threads or os.cpu_count()
        settings |= {"num_cpus": cpus, "include_dashboard": False}
        # Only numbers pass through it. Ray's default is a third of the memory.
        settings |= {"object_store_memory": 100 << 20, "address": LOCAL}
    else:
        settings |= {"address": address}
    if not ray.is_initialized():
        try:
            ray.init(**settings)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise ElmoxError(f"no Ray cluster at {address!r}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _room(ray: ModuleType, threads: int, num_gpus: int) -> int:
    """Return the number of actors that the cluster has room for."""
    resources = ray.cluster_resources()
    count = resources.get("GPU", 0) if num_gpus else resources.get("CPU", 0) // threads
    return max(1, int(count))


def _get(ray: ModuleType, reference: Any) -> Any:
    """Return the result of an actor; raise the error of elmox, not Ray's wrapping of it."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ElmoxError):
            raise error.cause from None
        raise
