"""`elmox serve` as real processes, for tests."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from shell import command, environment

PATIENCE = 120.0  # seconds for anything that takes far less on an idle machine


class HttpServer:
    """A running `elmox serve`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def url(self) -> str:
        """Its address, once every worker is ready."""
        addresses: list[str] = []

        def is_announced() -> bool:
            assert self.process.poll() is None, "".join(self.lines)
            addresses.extend(re.findall(r"serving on (\S+)", "".join(self.lines)))
            return bool(addresses)

        wait_for(is_announced, "the server to be ready")
        return addresses[0]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log lines of one kind."""
        records = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [record for record in records if record["event"] == name]

    def worker_pids(self) -> list[int]:
        """Process ids of the workers that run."""
        ended = {event["pid"] for event in self.events("worker ended")}
        return [e["pid"] for e in self.events("worker started") if e["pid"] not in ended]

    def terminate(self) -> int:
        """Stop it as an operator does; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextmanager
def running(*arguments: object, **variables: str) -> Iterator[HttpServer]:
    """Run `elmox serve ARGUMENTS` on a free port, and stop it afterwards.

    Args:
        arguments: of the command.
        variables: more of its environment.
    """
    process = subprocess.Popen(
        command("serve", "--port", 0, "--device", "cpu", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    server = HttpServer(process)
    try:
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def metric(url: str, name: str, **headers: str) -> float:
    """The sum of a metric over its labels."""
    text = httpx.get(f"{url}/metrics", headers=headers, timeout=PATIENCE).text
    values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
