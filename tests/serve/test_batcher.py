"""The batcher: what shares a batch, what is dropped, what fails alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from elmox.serve.batcher import Batch, Batcher
from elmox.serve.record import Connection
from elmox.serve.refusals import ClientLeft


@dataclass(frozen=True)
class Doubled:
    """Doubles numbers; `calls` notes what was computed together."""

    name: str = ""
    calls: list[list[Any]] = field(default_factory=list, compare=False)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Refuse negative numbers."""
        self.calls.append(list(inputs))
        if any(number < 0 for number in inputs):
            raise ValueError("negative")
        return [2 * number for number in inputs]


def with_batcher(test: Callable[[Batcher, list[Batch]], Awaitable[None]]) -> None:
    """Run a test while a batcher computes."""

    async def run() -> None:
        batches: list[Batch] = []
        batcher = Batcher(batch_tokens=10, observe=batches.append)
        computing = asyncio.create_task(batcher.run())
        try:
            await asyncio.wait_for(test(batcher, batches), 30)
        finally:
            computing.cancel()
            batcher.executor.shutdown()

    asyncio.run(run())


def test_waiting_jobs_share_a_batch_up_to_the_budget() -> None:
    """Six jobs of three tokens: three fit into ten; each has its own results."""

    async def test(batcher: Batcher, batches: list[Batch]) -> None:
        double = Doubled()
        jobs = [batcher.submit(double, [n, n + 100], 3) for n in range(6)]
        assert await asyncio.gather(*jobs) == [[2 * n, 2 * n + 200] for n in range(6)]
        assert [batch.num_requests for batch in batches] == [3, 3]
        assert [batch.num_tokens for batch in batches] == [9, 9]
        assert double.calls[0] == [0, 100, 1, 101, 2, 102]

    with_batcher(test)


def test_a_job_beyond_the_budget_is_a_batch_of_its_own() -> None:
    """It is computed alone."""

    async def test(batcher: Batcher, batches: list[Batch]) -> None:
        double = Doubled()
        jobs = [batcher.submit(double, [1], 50), batcher.submit(double, [2], 1)]
        assert await asyncio.gather(*jobs) == [[2], [4]]
        assert [batch.num_tokens for batch in batches] == [50, 1]

    with_batcher(test)


def test_different_operations_are_not_mixed() -> None:
    """The oldest job decides; none is starved."""

    async def test(batcher: Batcher, batches: list[Batch]) -> None:
        a, b = Doubled("a"), Doubled("b")
        jobs = [batcher.submit(model, [n], 1) for n, model in enumerate([a, b, a, b])]
        assert await asyncio.gather(*jobs) == [[0], [2], [4], [6]]
        assert (a.calls, b.calls) == ([[0, 2]], [[1, 3]])

    with_batcher(test)


def test_work_of_clients_that_left_is_not_computed() -> None:
    """Neither where the connection was lost nor where the time was up."""

    async def test(batcher: Batcher, batches: list[Batch]) -> None:
        double = Doubled()
        connection = Connection()
        left = asyncio.create_task(batcher.submit(double, [1], 1, connection))
        late = asyncio.create_task(batcher.submit(double, [2], 1))
        await asyncio.sleep(0)
        late.cancel()
        connection.lose()
        assert await batcher.submit(double, [3], 1) == [6]
        with pytest.raises(ClientLeft):
            await left
        with pytest.raises(ClientLeft):
            await batcher.submit(double, [4], 1, connection)
        assert double.calls == [[3]]

    with_batcher(test)


def test_a_failing_job_fails_alone() -> None:
    """The others of its batch are computed again without it."""

    async def test(batcher: Batcher, batches: list[Batch]) -> None:
        double = Doubled()
        jobs = [batcher.submit(double, [number], 1) for number in (1, -1, 3)]
        first, failed, last = await asyncio.gather(*jobs, return_exceptions=True)
        assert (first, last) == ([2], [6])
        assert isinstance(failed, ValueError)
        assert await batcher.submit(double, [4], 1) == [8]

    with_batcher(test)
