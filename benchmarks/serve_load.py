"""Load for an HTTP server on this machine: closed loops and arrivals at a fixed rate.

wrk measures throughput, but cannot pace its requests. This generator can, and it counts statuses.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import uvloop


@dataclass
class Load:
    """Responses of a run.

    Attributes:
        statuses: number of responses by HTTP status; 0 is a connection that broke.
        seconds: latencies of successful requests.
        finished: when each of them ended, in seconds from the start.
        elapsed: of the whole run.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    elapsed: float = 0.0

    @property
    def goodput(self) -> float:
        """Successful requests per second."""
        return self.statuses[200] / self.elapsed

    def percentile(self, share: float) -> float:
        """A percentile of the latency, in seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def http_request(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._response: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class

    def data_received(self, data: bytes) -> None:
        """Read a response with a content-length."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._response is None:
            return
        head = self._buffer[:end].lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
        if len(self._buffer) >= end + 4 + length:
            status, self._buffer = int(head[9:12]), b""
            if not self._response.done():
                self._response.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count what was under way as broken."""
        self._transport = None
        if self._response is not None and not self._response.done():
            self._response.set_result(0)

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, request: bytes) -> int:
        """Send a request; return the status, 0 if the connection broke."""
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._response


class Pool:
    """Connections to a server, reused."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), parts.port or 80)
        self._idle: list[Connection] = []

    async def send(self, request: bytes) -> int:
        """Send a request over an idle connection, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                break
        else:
            loop = asyncio.get_running_loop()
            try:
                _, connection = await loop.create_connection(Connection, *self._address)
            except OSError:
                return 0
        status = await connection.send(request)
        if status:
            self._idle.append(connection)
        return status


def closed_loop(url: str, requests: Sequence[bytes], seconds: float, num_connections: int) -> Load:
    """Connections that each send the next request as soon as they have a response."""

    async def run() -> Load:
        load, pool, start = Load(), Pool(url), time.perf_counter()

        async def client(number: int) -> None:
            index = number
            while time.perf_counter() - start < seconds:
                await _send(pool, requests[index % len(requests)], load, start)
                index += num_connections

        await asyncio.gather(*map(client, range(num_connections)))
        load.elapsed = time.perf_counter() - start
        return load

    return uvloop.run(run())


def at_rate(url: str, requests: Sequence[bytes], seconds: float, rate: float) -> Load:
    """Requests that arrive at random times, `rate` per second, whether or not others wait."""

    async def run() -> Load:
        load, pool, start = Load(), Pool(url), time.perf_counter()
        rng, due, tasks = random.Random(0), 0.0, set[asyncio.Task[None]]()
        index = 0
        while due < seconds:
            due += rng.expovariate(rate)
            pause = start + due - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            task = asyncio.create_task(_send(pool, requests[index % len(requests)], load, start))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            index += 1
        load.elapsed = time.perf_counter() - start
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        return load

    return uvloop.run(run())


async def _send(pool: Pool, request: bytes, load: Load, start: float) -> None:
    sent = time.perf_counter()
    status = await pool.send(request)
    ended = time.perf_counter()
    load.statuses[status] += 1
    if status == 200:
        load.seconds.append(ended - sent)
        load.finished.append(ended - start)
