"""Jobs of the table as processes: several at a time, the largest first, until the time is over."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from task_plan import TASKS
from task_records import Fit, Setup

from elmox.files import read_json

SCRIPT = Path(__file__).with_name("tasks.py")
TICK = 0.2  # seconds between looks at the processes


class Job(Protocol):
    """Something that a process does."""

    @property
    def name(self) -> str:
        """For people and log files."""
        ...

    @property
    def cost(self) -> float:
        """Larger ones are begun first."""
        ...

    def command(self, setup: Setup) -> list[str]:
        """The process's."""
        ...


@dataclass(frozen=True)
class FitJob:
    """A fit of the table; a `Job`."""

    fit: Fit

    @property
    def name(self) -> str:
        return self.fit.name

    @property
    def cost(self) -> float:
        return self.fit.cost

    def command(self, setup: Setup) -> list[str]:
        fit = self.fit
        own = ["fit", fit.task, fit.column, "--trial", str(fit.trial), "--seed", str(fit.seed)]
        own += ["--tested"] if fit.tested else []
        own += ["--work", str(setup.work), "--data", str(setup.data), "--elmo", setup.elmo]
        own += ["--recipes", str(setup.recipes), "--beside", str(setup.beside)]
        own += [] if setup.minilm is None else ["--minilm", str(setup.minilm)]
        return [sys.executable, str(SCRIPT), *own, *_device_and_changes(setup)]


@dataclass(frozen=True)
class StudyJob:
    """An ablation or a curve, by `elmox ablate`; a `Job`."""

    task: str
    study: str
    num_seeds: int

    @property
    def name(self) -> str:
        return f"{self.task}-study-{self.study}"

    @property
    def cost(self) -> float:
        return 5 * TASKS[self.task].cost * self.num_seeds  # about five variants

    def is_done(self, setup: Setup) -> bool:
        """Whether there is a table of at least as many seeds."""
        path = setup.work / "ablations" / self.task / f"{self.study}.json"
        return path.exists() and int(read_json(path)["num_seeds"]) >= self.num_seeds

    def command(self, setup: Setup) -> list[str]:
        files = setup.files(self.task)
        own = ["ablate", self.task, self.study, "--seeds", str(self.num_seeds)]
        own += ["--train", _short(files.train), "--dev", _short(files.dev), "--elmo", setup.elmo]
        own += ["--out", _short(setup.work / "ablations" / self.task)]
        own += ["--recipe", _short(setup.recipes / f"{self.task}.toml")]
        own += ["--cache", _short(setup.work / "cache")]
        return [sys.executable, "-m", "elmox", *own, *_device_and_changes(setup)]


def _device_and_changes(setup: Setup) -> list[str]:
    changes = [part for change in setup.changes for part in ("--set", change)]
    return changes if setup.device is None else [*changes, "--device", setup.device]


def _short(path: Path) -> str:
    """As one would write it here: the study's table names its command."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def run_jobs(
    find: Callable[[], Sequence[Job]],
    setup: Setup,
    *,
    most: int,
    seconds: float,
    threads: int,
) -> bool:
    """Run jobs until there are none left, or the time is over.

    Args:
        find: the jobs that can be done now; asked again whenever one has ended.
        setup: passed on to them.
        most: processes at a time.
        seconds: after which those that run are ended; they go on the next time.
        threads: of each process.

    Returns:
        Whether none has failed.
    """
    ends = time.monotonic() + seconds
    running: dict[str, subprocess.Popen[bytes]] = {}
    began: dict[str, float] = {}
    failed: set[str] = set()
    logs = setup.work / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with _ended_with_us(running):
        jobs = find()
        while time.monotonic() < ends:
            over = [name for name, process in running.items() if process.poll() is not None]
            for name in over:
                code = running.pop(name).returncode
                failed |= {name} if code else set()
                _say_how(name, code, time.monotonic() - began[name], logs / f"{name}.log")
            if over:
                jobs = find()
            free = [own for own in jobs if own.name not in running and own.name not in failed]
            for job in sorted(free, key=lambda own: -own.cost)[: most - len(running)]:
                began[job.name] = time.monotonic()
                running[job.name] = _started(job, setup, threads, logs / f"{job.name}.log")
            if not running:
                return not failed
            time.sleep(TICK)
        _say("the time is over, and more is left to do: run the same again to go on")
        return not failed


def _started(job: Job, setup: Setup, threads: int, log: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as file:
        return subprocess.Popen(
            job.command(setup), env=environment, stdout=file, stderr=subprocess.STDOUT
        )


@contextmanager
def _ended_with_us(running: dict[str, subprocess.Popen[bytes]]) -> Iterator[None]:
    """No process is left behind, whatever ends this one."""

    def end(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _say_how(name: str, code: int, seconds: float, log: Path) -> None:
    lines = log.read_text("utf-8", "replace").strip().splitlines() or ["done"]
    if code:
        _say(f"{name} failed ({code}): {lines[-1]}; see {log}")
    else:
        _say(f"{name}: {lines[-1]}; {seconds:.0f} s")


def _say(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)
