"""The supervisor: owns the port, starts workers, replaces those that die, passes signals on.

| signal | effect |
|---|---|
| SIGTERM, SIGINT | the workers finish what they have accepted, then everything ends |
| SIGHUP | new workers load models and keys afresh; when they are ready, the old ones retire |

Workers share nothing but the port. On Linux each has a listening socket of its own, and the kernel
deals connections out to them; on a common socket an idle worker would take them all. The supervisor
keeps the sockets open: connections that wait survive the death of a worker, and its successor
accepts them. This process never imports torch.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.serve.config import ServeConfig
from elmox.serve.logs import log

BACKLOG = 2048
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
RETIRE = signal.SIGUSR1
MAX_PAUSE = 30.0  # seconds before a worker that keeps failing is started again
KILL_AFTER = 10.0  # seconds beyond the time that a worker has to drain


@dataclass(eq=False)
class WorkerProcess:
    """A worker as the supervisor sees it."""

    number: int
    process: "subprocess.Popen[bytes]"
    status: IO[bytes]
    is_ready: bool = False
    is_stopping: bool = False
    replaces: "WorkerProcess | None" = None
    failure: str | None = None
    deadline: float = float("inf")  # when it is killed


def serve(config: ServeConfig, announce: Callable[[str], None] = lambda url: None) -> None:
    """Serve until a signal ends it.

    Args:
        config: what to serve, and where.
        announce: called with the server's address once every worker is ready.

    Raises:
        ElmoxError: if a model cannot be loaded or the address is not allowed.
    """
    config.check_address()
    listeners = _listen(config)
    try:
        with tempfile.TemporaryDirectory(prefix="elmox-serve-") as folder:
            Supervisor(config, listeners, folder, announce).run()
    finally:
        for listener in listeners:
            listener.close()


class Supervisor:
    """The workers of a server."""

    def __init__(
        self,
        config: ServeConfig,
        listeners: list[socket.socket],
        folder: str,
        announce: Callable[[str], None],
    ) -> None:
        self._config, self._listeners, self._folder = config, listeners, folder
        self._announce = announce
        self._workers: list[WorkerProcess] = []
        self._restarts: list[tuple[float, int]] = []  # when, and the worker's number
        self._failures = 0
        self._was_ready = self._is_stopping = False
        self._swaps: list[int] = []  # numbers of the workers that are still to be replaced
        self._error: str | None = None
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Start the workers and look after them until all have ended."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        old_wakeup = signal.set_wakeup_fd(writing)
        old_handlers = {number: signal.signal(number, _ignore) for number in SIGNALS}
        self._selector.register(reading, selectors.EVENT_READ, None)
        try:
            for number in range(self._config.workers):
                self._start(number, accept_at_once=True)
            while self._workers or self._restarts:
                self._step(reading)
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.wait()
            signal.set_wakeup_fd(old_wakeup)
            for signal_number, handler in old_handlers.items():
                signal.signal(signal_number, handler)
            self._selector.close()
            os.close(reading)
            os.close(writing)
        if self._error is not None:
            raise ElmoxError(self._error)

    def _step(self, reading: int) -> None:
        """Wait for something to happen, and react."""
        for key, _ in self._selector.select(timeout=0.5):
            if key.data is None:
                for number in os.read(reading, 64):
                    self._on_signal(signal.Signals(number))
            else:
                self._on_status(key.data)
        now = time.monotonic()
        for worker in self._workers:
            if worker.deadline < now:
                worker.process.kill()
        for due in [restart for restart in self._restarts if restart[0] <= now]:
            self._restarts.remove(due)
            self._start(due[1], accept_at_once=not any(worker.is_ready for worker in self._workers))

    def _start(
        self, number: int, *, accept_at_once: bool, replaces: WorkerProcess | None = None
    ) -> None:
        reading, writing = os.pipe()
        listener = self._listeners[number % len(self._listeners)]
        descriptors = (listener.fileno(), writing)
        arguments = [*map(str, descriptors), str(int(accept_at_once))]
        process = subprocess.Popen(
            [sys.executable, "-m", "elmox.serve.worker", *arguments],
            stdin=subprocess.PIPE,
            pass_fds=descriptors,
            env=worker_environment(self._config.threads, self._folder),
        )
        os.close(writing)
        assert process.stdin is not None
        process.stdin.write(self._config.to_json().encode() + b"\n")
        process.stdin.flush()
        status = os.fdopen(reading, "rb", buffering=0)
        worker = WorkerProcess(number, process, status, replaces=replaces)
        self._workers.append(worker)
        self._selector.register(status, selectors.EVENT_READ, worker)
        log("worker started", worker=number, pid=process.pid)

    def _on_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP and not self._is_stopping:
            log("models are loaded afresh")
            self._swaps = [worker.number for worker in self._workers if not worker.is_stopping]
            self._swap_next()
        elif number in (signal.SIGTERM, signal.SIGINT):
            if self._is_stopping:  # a second one: without waiting
                for worker in self._workers:
                    worker.process.kill()
                return
            log("stopping", signal=number.name)
            self._stop_all()

    def _stop_all(self) -> None:
        self._is_stopping = True
        self._restarts, self._swaps = [], []
        for listener in self._listeners:
            listener.close()  # the workers close theirs when they have drained it
        for worker in self._workers:
            self._stop(worker, signal.SIGTERM)

    def _stop(self, worker: WorkerProcess, how: signal.Signals) -> None:
        """Let a worker drain and end; it is killed if that takes too long."""
        limits = self._config.limits
        worker.is_stopping = True
        worker.deadline = (
            time.monotonic() + limits.linger_seconds + limits.drain_seconds + KILL_AFTER
        )
        worker.process.send_signal(how)

    def _swap_next(self) -> None:
        """Start the successor of the next worker, unless one is being started already."""
        if any(worker.replaces is not None for worker in self._workers):
            return
        while self._swaps:
            number = self._swaps.pop(0)
            for worker in self._workers:
                if worker.number == number and not worker.is_stopping:
                    self._start(number, accept_at_once=False, replaces=worker)
                    return

    def _on_status(self, worker: WorkerProcess) -> None:
        """Read a worker's status: ready, failed, or ended."""
        line = worker.status.read(4096)
        if line and line.startswith(b"failed "):
            worker.failure = line.decode("utf-8", "replace").removeprefix("failed ").strip()
        elif line:
            self._on_ready(worker)
        else:
            self._on_exit(worker)

    def _on_ready(self, worker: WorkerProcess) -> None:
        worker.is_ready, self._failures = True, 0
        log("worker ready", worker=worker.number, pid=worker.process.pid)
        if worker.replaces is not None:
            old, worker.replaces = worker.replaces, None
            self._stop(old, RETIRE)
            self._swap_next()
        if not self._was_ready and all(worker.is_ready for worker in self._workers):
            self._was_ready = True
            self._announce(_url(self._listeners[0]))

    def _on_exit(self, worker: WorkerProcess) -> None:
        self._selector.unregister(worker.status)
        worker.status.close()
        self._workers.remove(worker)
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        code = worker.process.wait()
        _forget_gauges(self._folder, worker.process.pid)
        log("worker ended", worker=worker.number, pid=worker.process.pid, code=code)
        if worker.is_stopping or self._is_stopping:
            return
        if worker.replaces is not None:  # the old one goes on
            log("models were not swapped", reason=worker.failure or f"exit code {code}")
            self._swaps = []
        elif not self._was_ready:
            self._error = worker.failure or f"a worker ended with exit code {code}"
            self._stop_all()
        else:
            self._failures += 0 if worker.is_ready else 1
            pause = min(2.0**self._failures - 1, MAX_PAUSE)
            self._restarts.append((time.monotonic() + pause, worker.number))


def worker_environment(threads: int, metrics_folder: str) -> dict[str, str]:
    """Return the environment of a worker.

    Idle OpenMP threads sleep instead of spinning: a spinning thread takes the processor from other
    workers.
    """
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",  # its default of 1024 shapes takes 500 MB
        DIRECTORY: metrics_folder,
    }


def _listen(config: ServeConfig) -> list[socket.socket]:
    """Bind the port: one socket per worker where the kernel balances them, otherwise one."""
    try:
        first = _bind(config, config.port, shared=False)  # fails if the port is taken
        if config.workers == 1 or sys.platform != "linux":
            listeners = [first]
        else:
            port = first.getsockname()[1]
            first.close()
            listeners = [_bind(config, port, shared=True) for _ in range(config.workers)]
        for listener in listeners:
            listener.listen(BACKLOG)
    except OSError as error:
        raise ArgumentError(
            "{} and {} cannot be used, {}: choose another",
            Argument("host", config.host),
            Argument("port", config.port),
            error.strerror,
        ) from error
    return listeners


def _bind(config: ServeConfig, port: int, shared: bool) -> socket.socket:
    infos = socket.getaddrinfo(config.host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = infos[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _forget_gauges(folder: str, pid: int) -> None:
    """Remove a dead worker's gauges; its counters stay, so that sums never fall."""
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def _ignore(number: int, frame: object) -> None:
    """Let the wakeup descriptor report a signal."""
