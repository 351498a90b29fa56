"""A worker process: loads the models, serves requests, drains when it is told to stop.

The supervisor starts it as `python -m elmox.serve.worker LISTENING_FD STATUS_FD`, writes its
configuration to stdin and keeps stdin open: when that ends, the supervisor is gone.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn

from elmox.errors import ElmoxError
from elmox.serve.app import create_app
from elmox.serve.config import ServeConfig
from elmox.serve.logs import configure_logging, log
from elmox.serve.protocol import BoundedProtocol
from elmox.serve.routes.info import describe
from elmox.serve.service import Service

BACKLOG = 2048
LAST_ACCEPTS = 0.05  # seconds between the last invitation to connect and the end of listening
RETIRE = signal.SIGUSR1  # stop, while others go on accepting from the same socket
READY, FAILED = b"ready\n", b"failed "


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the worker."""
        yield


class Worker:
    """One process that serves requests."""

    def __init__(self, config: ServeConfig, listener: socket.socket, status: int) -> None:
        self.config, self._listener, self._status = config, listener, status
        self.service = Service(config)
        limits = config.limits
        self._server = Server(
            uvicorn.Config(
                create_app(self.service),
                http=partial(BoundedProtocol, limits),  # type: ignore[arg-type]
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # an address in a header is only a claim
                backlog=BACKLOG,
                timeout_keep_alive=limits.keep_alive_seconds,  # type: ignore[arg-type]
                timeout_graceful_shutdown=limits.drain_seconds,  # type: ignore[arg-type]
            )
        )
        self._stopping: asyncio.Task[None] | None = None

    async def run(self, accept_at_once: bool) -> None:
        """Serve until told to stop.

        Args:
            accept_at_once: accept connections before the models are loaded, and refuse requests
                with 503 until then.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop, True)
        loop.add_signal_handler(RETIRE, self.stop, False)
        loop.add_reader(sys.stdin.fileno(), self._read_stdin)
        computing = asyncio.create_task(self.service.batcher.run())
        loading = asyncio.create_task(self._load())
        if not accept_at_once:
            await loading
        if self._stopping is None:
            await self._server.serve(sockets=[self._listener])
        computing.cancel()
        await loading
        if self.service.tracer is not None:
            self.service.tracer.close()

    async def _load(self) -> None:
        try:
            await self.service.load()
        except (ElmoxError, OSError, MemoryError) as error:
            os.write(self._status, FAILED + " ".join(str(error).split()).encode() + b"\n")
            self._server.should_exit = True
            return
        os.write(self._status, READY)

    def stop(self, linger: bool) -> None:
        """Begin to stop: finish what was accepted, then exit.

        Args:
            linger: go on accepting for a while, because no other process does.
        """
        if self._stopping is None:
            self.service.is_draining = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop(linger))

    async def _stop(self, linger: bool) -> None:
        """Stop accepting, then let uvicorn wait for the requests that are under way.

        From here on every response closes its connection, so that clients with open connections
        find another server before this one closes those that are idle.
        """
        log("draining", linger=linger)
        limits = self.config.limits
        if linger:
            await asyncio.sleep(limits.linger_seconds)
            self._listener.listen(0)  # what waits already is still accepted
            await asyncio.sleep(LAST_ACCEPTS)
        for server in getattr(self._server, "servers", []):
            server.close()
        if not linger:
            await asyncio.sleep(limits.linger_seconds)
        self._server.should_exit = True

    def _read_stdin(self) -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.stop(True)


def main() -> None:
    """Run a worker as the supervisor describes it."""
    listening, status, accept_at_once = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the supervisor, which decides
    configure_logging()
    _raise_open_files()
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(sys.stdin.fileno(), 1)
    try:
        worker = Worker(
            ServeConfig.from_json(line.decode()), socket.socket(fileno=listening), status
        )
    except (ElmoxError, OSError) as error:
        os.write(status, FAILED + " ".join(str(error).split()).encode() + b"\n")
        sys.exit(1)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(worker.run(bool(accept_at_once)))
    logging.shutdown()
    os._exit(0)  # nothing is left to do, and a thread may still compute for a client that left


def check_config(config: ServeConfig) -> dict[str, Any]:
    """Load everything that a server would serve, and return its description."""
    config.check_address()
    service = Service(config)
    asyncio.run(service.load())
    return describe(service)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's event loop where there is one."""
    try:
        import uvloop
    except ImportError:  # on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


if __name__ == "__main__":
    main()
