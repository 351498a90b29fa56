"""Dynamic batching: compute whatever waits, up to a token budget, without a timer.

One thread computes, so that a batch never competes with another for the processor. While it does,
new requests wait in a list. The next batch is everything in that list that can share a computation,
oldest first: under light load a request is computed alone and at once, under heavy load batches
grow by themselves.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from elmox.serve.record import Connection
from elmox.serve.refusals import ClientLeft

IDLE_PASSES = 3  # of the event loop: one reads a request, one starts its handler, one more to see


class Operation(Protocol):
    """A computation on inputs. Jobs with equal operations share a batch, so it is hashable."""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return one result per input."""
        ...

    def __hash__(self) -> int: ...


@dataclass(eq=False)
class Job:
    """The inputs of one request, and the promise of their results."""

    operation: Operation
    inputs: Sequence[Any]
    num_tokens: int
    results: "asyncio.Future[list[Any]]"
    submitted: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class Batch:
    """One batch that was computed, for metrics."""

    num_requests: int
    num_inputs: int
    num_tokens: int
    waited: list[float]  # seconds per request
    seconds: float


class Batcher:
    """The jobs that wait, and the thread that computes them."""

    def __init__(self, batch_tokens: int, observe: Callable[[Batch], None]) -> None:
        """Args:
        batch_tokens: most tokens per batch; a job with more is a batch of its own.
        observe: called after every batch.
        """
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._batch_tokens, self._observe = batch_tokens, observe
        self._waiting: list[Job] = []
        self._arrived = asyncio.Event()
        self._num_submitted = 0

    async def submit(
        self,
        operation: Operation,
        inputs: Sequence[Any],
        num_tokens: int,
        connection: Connection | None = None,
    ) -> list[Any]:
        """Wait for the results of some inputs, one each.

        Args:
            operation: the computation.
            inputs: what it reads.
            num_tokens: size of the work.
            connection: of the client; once it is lost, the inputs are not computed any more.

        Raises:
            ClientLeft: if the connection was lost before.
        """
        results: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if connection is not None:
            if connection.is_lost:
                raise ClientLeft
            connection.results = results
        self._waiting.append(Job(operation, inputs, num_tokens, results))
        self._num_submitted += 1
        self._arrived.set()
        return await results

    async def run(self) -> None:
        """Compute forever."""
        while True:
            await self._arrived.wait()
            await self._let_arrivals_in()
            jobs = self._take()
            if jobs:
                await self._compute(jobs)
            if not self._waiting:
                self._arrived.clear()

    async def _let_arrivals_in(self) -> None:
        """Read the requests that have arrived already: they cost the same before and after."""
        idle, seen = 0, self._num_submitted
        while idle < IDLE_PASSES:
            await asyncio.sleep(0)
            idle = idle + 1 if self._num_submitted == seen else 0
            seen = self._num_submitted

    def _take(self) -> list[Job]:
        """Take the oldest job and those that can share its batch."""
        taken: list[Job] = []
        left: list[Job] = []
        total = 0
        for job in self._waiting:
            if job.results.done():  # the client has left, or the time is up
                continue
            if not taken or (
                job.operation == taken[0].operation and total + job.num_tokens <= self._batch_tokens
            ):
                taken.append(job)
                total += job.num_tokens
            else:
                left.append(job)
        self._waiting = left
        return taken

    async def _compute(self, jobs: list[Job]) -> None:
        loop = asyncio.get_running_loop()
        started = time.perf_counter()
        inputs = [item for job in jobs for item in job.inputs]
        try:
            results = await loop.run_in_executor(self.executor, jobs[0].operation, inputs)
        except Exception as error:
            if len(jobs) == 1:
                _fail(jobs[0], error)
            for job in jobs if len(jobs) > 1 else ():  # one of them must not fail the others
                await self._compute([job])
            return
        start = 0
        for job in jobs:
            end = start + len(job.inputs)
            if not job.results.done():
                job.results.set_result(results[start:end])
            start = end
        seconds = time.perf_counter() - started
        waited = [started - job.submitted for job in jobs]
        num_tokens = sum(job.num_tokens for job in jobs)
        self._observe(Batch(len(jobs), len(inputs), num_tokens, waited, seconds))


def _fail(job: Job, error: Exception) -> None:
    if not job.results.done():
        job.results.set_exception(error)
