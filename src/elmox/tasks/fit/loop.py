"""Fitting a task's model: the one loop for all tasks.

AdamW on the task's own weights, and on a biLM's where the recipe says so; the best epoch by the dev
data's score is what stays. An epoch depends on seed and epoch alone, and after each one all is
saved: an interrupted fit goes on with the very numbers of an undisturbed one (a GPU adds up some
gradients in any order: there, but for the last bits).
"""

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.files import (
    atomic_directory,
    is_vacant,
    read_json,
    to_json,
)
from elmox.io.memory import memory_explained
from elmox.io.progress import Log
from elmox.io.temporary import clear_leftovers
from elmox.io.tensors import digest, read_tensors, write_tensors
from elmox.kernels.tf32 import tf32_products
from elmox.tasks.data.batches import TaskData, answers_to
from elmox.tasks.fit.pace import Pace
from elmox.tasks.metrics.shown import shown_score
from elmox.tasks.model import MODEL, ModelDescription, TaskModel, read_model, write_model
from elmox.tasks.recipe import by_name
from elmox.training.progress import MetricsLog

PROGRESS = "progress"


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is.

    Attributes:
        epoch: epochs done.
        best_epoch: the one with the best score on the dev data; 0 before the first.
        best: the scores of that epoch.
        lr: of the next epoch.
        seconds: spent, in all its sessions.
    """

    epoch: int = 0
    best_epoch: int = 0
    best: dict[str, int | float] = field(default_factory=dict)  # an int read again is one
    lr: float = 0.0
    seconds: float = 0.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)


def fit(
    model: TaskModel,
    train: TaskData,
    dev: TaskData,
    out: Path,
    *,
    log: Log = lambda message: None,
) -> tuple[TaskModel, FitProgress]:
    """Fit a model and return its best epoch.

    Args:
        model: with fresh weights, on the device where it is to be fitted.
        train: what it learns from.
        dev: by which its best epoch is chosen.
        out: a directory for the run. Where an interrupted one lies there, it goes on.
        log: told how it goes, a line at a time.

    Returns:
        The model of the best epoch, which also lies in `out/model`; and how it went.
    """
    for name in (PROGRESS, MODEL):
        clear_leftovers(out / name)
    if not (out / PROGRESS).exists() and not is_vacant(out / MODEL):  # it is of others' making
        raise ElmoxError(
            f"{out / MODEL} exists already, and no {PROGRESS} beside it to go on from: choose "
            "another --out, or move it away"
        )
    run = _Fit(model, train, dev, out, log)
    try:
        with memory_explained("lower fit.batch_size"), tf32_products(model.device):
            while not run.is_over():
                run.epoch()
    finally:
        run.close()
    best = read_model(out / MODEL).to(model.device)
    return best, run.progress


class _Fit:
    def __init__(
        self, model: TaskModel, train: TaskData, dev: TaskData, out: Path, log: Log
    ) -> None:
        self._model, self._train, self._dev = model, train, dev
        self._out, self._log = out, log
        self._recipe = model.description.recipe.fit
        self._metric = model.task.metric
        self._parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._fused = model.device.type == "cuda"  # one launch, where launches are what takes time
        self._optimizer = torch.optim.AdamW(
            _groups(model), weight_decay=self._recipe.weight_decay, fused=self._fused
        )
        self.progress = FitProgress(lr=self._recipe.lr)
        self._job = _job(model, train, dev)
        if (out / PROGRESS).is_dir():
            self._restore()
        else:
            self._save()  # a model that an epoch leaves is then known as this run's
        self._metrics = MetricsLog(out, self.progress.epoch)

    def close(self) -> None:
        """Nothing more will be reported."""
        self._metrics.close()

    def is_over(self) -> bool:
        """Whether there is nothing more to gain."""
        epoch, best = self.progress.epoch, self.progress.best_epoch
        return epoch >= self._recipe.epochs or epoch - best >= self._recipe.patience

    def epoch(self) -> None:
        """Read the training data once, look at the dev data, save."""
        began = time.monotonic()
        number = self.progress.epoch + 1
        loss = self._learn(number)
        scores = self._model.task.score(self._dev.examples, answers_to(self._model, self._dev))
        better = scores[self._metric] > self.progress.best.get(self._metric, float("-inf"))
        if better:
            self.progress = replace(self.progress, best_epoch=number, best=scores)
            write_model(self._model, self._out / MODEL, force=True)
        lr = self.progress.lr
        self.progress = replace(
            self.progress,
            epoch=number,
            lr=self._rate_after(number),
            seconds=self.progress.seconds + time.monotonic() - began,
        )
        found = {f"dev_{name}": value for name, value in scores.items()}
        self._metrics.write(  # before the epoch counts as done: else a kill could lose its line
            number, {"loss": loss, "lr": lr, **found, "seconds": self.progress.seconds}
        )
        self._save()
        shown = ", ".join(f"{name} {shown_score(value)}" for name, value in scores.items())
        self._log(f"epoch {number}, loss {loss:.4f}, dev {shown}{'' if better else ' (no better)'}")

    def _rate_after(self, number: int) -> float:
        """The rate of the epoch after this one."""
        recipe, lr = self._recipe, self.progress.lr
        if recipe.decay:
            return recipe.lr * (1 - number / recipe.epochs)
        waited = number - self.progress.best_epoch
        return lr / 2 if waited and waited % max(1, recipe.patience // 2) == 0 else lr

    def _learn(self, number: int) -> float:
        """One epoch of updates; the mean loss."""
        model, recipe = self._model.train(), self._recipe
        torch.manual_seed(_mixed(recipe.seed, number))
        for group in self._optimizer.param_groups:
            group["lr"] = group["initial_lr"] * (self.progress.lr / recipe.lr)
        total, pace = torch.zeros((), device=model.device), Pace(model.device)
        seed = (recipe.seed, number)
        batches = self._train.shuffled(recipe.batch_size, recipe.least_updates, seed)
        for chosen in batches:
            loss = model.loss(*self._train.batch(chosen, model.device))
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if recipe.clip_norm:
                torch.nn.utils.clip_grad_norm_(self._parameters.values(), recipe.clip_norm)
            self._optimizer.step()
            total += loss.detach()
            pace.updated()
        mean = float(total) / len(batches)
        if not math.isfinite(mean):
            rates = "fit.lr" if model.finetuned is None else "fit.lr or elmo.lr"
            raise ElmoxError(f"epoch {number}: the loss is {mean}: lower {rates}")
        return mean

    def _save(self) -> None:
        moments: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            for key, value in self._optimizer.state[parameter].items():
                moments[f"optimizer.{key}.{name}"] = value
        weights = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        with atomic_directory(self._out / PROGRESS) as new:
            write_tensors({**weights, **moments}, new / "state.safetensors")
            (new / "progress.json").write_bytes(to_json(asdict(self.progress)))
            (new / "job.json").write_bytes(to_json(self._job))

    def _restore(self) -> None:
        path = self._out / PROGRESS
        differing = _differing(_stored_job(path / "job.json"), self._job)
        if differing:
            raise ElmoxError(
                f"{self._out} was begun with other settings or other data "
                f"({', '.join(differing)}): go on with those, or choose another --out"
            )
        tensors = read_tensors(path / "state.safetensors")
        own = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        self._model.load(own, str(path / "state.safetensors"))
        for name, parameter in self._parameters.items():
            moments = {
                key: tensors[stored].to(parameter.device if self._fused or key != "step" else "cpu")
                for key in ("step", "exp_avg", "exp_avg_sq")
                if (stored := f"optimizer.{key}.{name}") in tensors
            }
            if moments:
                self._optimizer.state[parameter] = moments
        values = read_json(path / "progress.json")
        self.progress = validated(FitProgress, values, str(path / "progress.json"))
        best = self.progress.best_epoch
        if best and not (self._out / MODEL).is_dir():
            raise ElmoxError(
                f"{self._out / MODEL} is missing, the model of epoch {best}: put it back, or "
                f"delete {self._out} to fit it again"
            )
        self._log(f"going on after epoch {self.progress.epoch}")


def _groups(model: TaskModel) -> list[dict[str, Any]]:
    """What is learned, and at which rate: the task's own weights, ELMo's mix, and a biLM.

    A rate is the first epoch's.
    """
    recipe = model.description.recipe
    mix = [] if model.embedder.mix is None else [*model.embedder.mix.parameters()]
    mixing = set(mix)
    own = [*model.embedder.parameters(), *model.head.parameters()]
    bilm = [] if model.finetuned is None else [*model.finetuned.parameters()]
    parts = (
        ([one for one in own if one not in mixing], recipe.fit.lr),
        (mix, recipe.fit.lr * recipe.elmo.mix_rate),
        (bilm, recipe.elmo.lr),
    )
    return [{"params": weights, "initial_lr": lr} for weights, lr in parts if weights]


def _stored_job(path: Path) -> dict[str, Any]:
    """What a fit that was begun depends on. Settings that were not known then have their defaults.

    Args:
        path: its file.
    """
    job = read_json(path)
    return {**job, "model": _values(validated(ModelDescription, job.get("model", {}), str(path)))}


def _values(description: ModelDescription) -> dict[str, Any]:
    """As JSON knows them."""
    found: dict[str, Any] = json.loads(to_json(asdict(description)))
    return found


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What of a job is not as it was; not the places of files, as digests tell what is in them."""
    old, new = _settings(before), _settings(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [
        f"{name} was {old.get(name)}, is {new.get(name)}" if "." in name else f"other {name}"
        for name in names
        if name not in ("elmo.model", "words.vectors")
    ]


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """Those of the recipe by names like fit.lr; the rest of a job, digests mostly, by its own."""
    rest = {**job["model"], **job}
    del rest["model"], rest["recipe"]
    return {**by_name(job["model"]["recipe"]), **rest}


def _job(model: TaskModel, train: TaskData, dev: TaskData) -> dict[str, Any]:
    """What a fit depends on, as JSON knows it."""
    settings = _values(model.description)
    words = hashlib.blake2b(repr(model.words).encode("utf-8", "surrogatepass"), digest_size=16)
    static = model.embedder.static
    return {
        "model": settings,
        "words": words.hexdigest(),
        "static": None if static is None else digest({"static": static}),
        "train": train.digest(),
        "dev": dev.digest(),
    }


def _mixed(seed: int, epoch: int) -> int:
    """A seed for an epoch."""
    return (seed * 1_000_003 + epoch) % 2**63
