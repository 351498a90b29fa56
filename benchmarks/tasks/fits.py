"""One fit of the table, in this process."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from elmox.bench.machine import machine_facts
from elmox.inference.device import resolve_device
from elmox.io.files import atomic_write, read_json
from elmox.tasks.fit.results import SeedResult
from elmox.tasks.fit.session import TaskSession
from tasks.counts import counts_of
from tasks.minilm import MiniLmSession, minilm_folder
from tasks.plan import COLUMNS, TASKS
from tasks.records import Fit, Setup, recipe_values

MB = 10**6


def do_fit(fit: Fit, setup: Setup) -> dict[str, Any]:
    """Fit, or continue a fit, and write the record."""
    recipe = setup.recipe(fit)
    session = open_session(fit, setup)
    result = session.fit(recipe, fit.folder(setup.work)).seeds[0]
    model = Path(result.model)
    record = {
        **asdict(fit),
        "metric": session.task.metric,
        "settings": list(TASKS[fit.task].trials[fit.trial]),
        "recipe": recipe_values(recipe),
        "encoder": read_json(model / "config.json")["elmo"],
        "dev": result.dev,
        "best_epoch": result.epochs,
        "epochs": read_json(model.parent / "progress" / "progress.json")["epoch"],
        "seconds": result.seconds,
        "command": setup.command,
        **_measured(fit, setup, result.seconds),
    }
    if fit.tested:
        examples = session.task.read(setup.files(fit.task).test)
        answers = session.predict(model, examples)
        record["test"] = session.task.score(examples, answers)
        record["counts"] = counts_of(session.task, examples, answers)
    with atomic_write(fit.path(setup.work)) as temporary:
        temporary.write_text(json.dumps(record), encoding="utf-8")
    return record


def open_session(fit: Fit, setup: Setup) -> TaskSession:
    """Read a task's files. The test data is not among them: it is read when all is chosen."""
    train, dev, _ = setup.files(fit.task)
    options: dict[str, Any] = {
        "device": setup.device,
        "cache": setup.work / "cache",
        "log": lambda message: print(message, flush=True),
    }
    if COLUMNS[fit.column].encoder != "minilm":
        return _Measured(fit.task, train, dev, **options)
    return _MeasuredMiniLm(fit.task, train, dev, minilm=minilm_folder(setup.minilm), **options)


class _Measured(TaskSession):
    """A session in which the GPU's peak is that of the fit: layers have been computed before it."""

    def _fit_seed(self, *parts: Any) -> SeedResult:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        return super()._fit_seed(*parts)


class _MeasuredMiniLm(_Measured, MiniLmSession):
    """The same on MiniLM's layers."""


def _measured(fit: Fit, setup: Setup, seconds: float) -> dict[str, Any]:
    """Memory and machine; those of the trial if it is the same fit.

    A trial with another time was a different fit, of which only the record is left.
    """
    trial = Fit(fit.task, fit.column, fit.trial).path(setup.work)
    if fit.tested and fit.seed == 0 and trial.exists():
        earlier = read_json(trial)
        if earlier["seconds"] == seconds:
            return {
                name: earlier[name] for name in ("host_mb", "gpu_mb", "parallel_fits", "machine")
            }
    device = resolve_device(setup.device)
    on_gpu = device.type == "cuda"
    return {
        "host_mb": _peak_mb(),
        "gpu_mb": torch.cuda.max_memory_allocated(device) / MB if on_gpu else None,
        "parallel_fits": setup.parallel_fits,
        "machine": machine_facts(device),
    }


def _peak_mb() -> float | None:
    """The most memory that this process has had."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
