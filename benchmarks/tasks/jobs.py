"""Jobs of the table as processes, several at a time, within a time limit."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from tasks.plan import TASKS
from tasks.records import Fit, Setup
from tasks.studies import (
    fits_folder,
    fits_path,
    is_study_done,
    is_variant_done,
    same_in_table,
    variants_of,
)

if TYPE_CHECKING:
    from elmox.tasks.fit.ablation import Study

SCRIPT = Path(__file__).with_name("run.py")
TICK = 0.2  # seconds between looks at the processes


class Job(Protocol):
    """Work for one process."""

    @property
    def name(self) -> str:
        """Name in messages and log files."""
        ...

    def command(self, setup: Setup) -> list[str]:
        """Return the command line."""
        ...


@dataclass(frozen=True)
class FitJob:
    """A fit of the table; a `Job`."""

    fit: Fit

    @property
    def name(self) -> str:
        return self.fit.name

    def cost(self, setup: Setup) -> float:
        return self.fit.cost(setup.work)

    def command(self, setup: Setup) -> list[str]:
        fit = self.fit
        arguments = [
            "fit",
            fit.task,
            fit.column,
            "--trial",
            str(fit.trial),
            "--seed",
            str(fit.seed),
        ]
        arguments += ["--tested"] if fit.tested else []
        return [sys.executable, str(SCRIPT), *arguments, *_passed_on(setup)]


@dataclass(frozen=True)
class StudyJob:
    """An ablation or a curve, as `elmox ablate` makes it; a `Job`.

    Attributes:
        task, study: which.
        num_seeds: fits of each variant.
        variant: the number of one that is to be fitted; None for the table, of all of them.
    """

    task: str
    study: "Study"
    num_seeds: int
    variant: int | None = None

    @property
    def name(self) -> str:
        suffix = "" if self.variant is None else f"-{self.variant}"
        return f"{self.task}-study-{self.study}{suffix}"

    def cost(self, setup: Setup) -> float:
        if self.variant is None:
            return math.inf  # nothing but the table is left to do
        share = variants_of(self.study)[self.variant].share
        return share * TASKS[self.task].cost * self.num_seeds

    def pending(self, setup: Setup) -> "list[StudyJob]":
        """Return the parts of the study that can be done now; refuse another recipe or biLM."""
        if is_study_done(setup, self.task, self.study, self.num_seeds):
            return []
        missing = [
            replace(self, variant=number)
            for number, variant in enumerate(variants_of(self.study))
            if not is_variant_done(setup, self.task, variant, self.num_seeds)
        ]
        return missing or [self]

    def folder(self, setup: Setup) -> Path:
        """Folder that only one job may use at a time: a variant's fits; for a table, all fits.

        A variant that two studies share has one folder.
        """
        if self.variant is None:
            return fits_folder(setup, self.task)
        return fits_path(setup, self.task, variants_of(self.study)[self.variant])

    def columns(self, setup: Setup) -> set[tuple[str, str]]:
        """Task and column of the table's fits that are this job's too: of its variant's recipe, or,
        where it is the study's own table, of any variant's."""
        variants = variants_of(self.study)
        chosen = variants if self.variant is None else [variants[self.variant]]
        same = (same_in_table(setup, self.task, variant) for variant in chosen)
        return {(fit.task, fit.column) for fit in same if fit is not None}

    def command(self, setup: Setup) -> list[str]:
        arguments = ["study", self.task, self.study, "--seeds", str(self.num_seeds)]
        arguments += [] if self.variant is None else ["--variant", str(self.variant)]
        return [sys.executable, str(SCRIPT), *arguments, *_passed_on(setup)]


def in_order(fits: Sequence[FitJob], studies: Sequence[StudyJob], setup: Setup) -> list[Job]:
    """Return jobs in the order in which they start: the longest first.

    Of study jobs that need the same folder, only the first; those that the table fits anyway come
    after it.
    """
    fitted = {(job.fit.task, job.fit.column) for job in fits}
    first: dict[Path, StudyJob] = {}
    for study in studies:
        if not study.columns(setup) & fitted:
            first.setdefault(study.folder(setup), study)
    jobs: list[FitJob | StudyJob] = [*fits, *first.values()]
    return [*sorted(jobs, key=lambda job: -job.cost(setup))]


def _passed_on(setup: Setup) -> list[str]:
    """Return the setup as options of `run.py`."""
    given = {
        "--work": setup.work,
        "--data": setup.data,
        "--recipes": setup.recipes,
        "--elmo": setup.elmo,
        "--original": setup.original,
        "--minilm": setup.minilm,
        "--device": setup.device,
        "--parallel-fits": setup.parallel_fits,
    }
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    options += [f"--set={change}" for change in setup.changes]
    return [*options, f"--made-by={setup.command}"]


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
        find: the jobs that can be done now, in their order; called again whenever one has ended.
        setup: passed on to them.
        most: processes at a time.
        seconds: time limit, after which running jobs are ended; the next run continues them.
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
            free = [job for job in jobs if job.name not in running and job.name not in failed]
            for job in free[: most - len(running)]:
                began[job.name] = time.monotonic()
                running[job.name] = _started(job, setup, threads, logs / f"{job.name}.log")
            if not running:
                return not failed
            time.sleep(TICK)
        _log("the time limit is reached and jobs are left: run the same command again to continue")
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
        _log(f"{name} failed ({code}): {lines[-1]}; see {log}")
    else:
        _log(f"{name}: {lines[-1]}; {seconds:.0f} s")


def _log(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)
