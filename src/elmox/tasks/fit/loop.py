"""The training loop of all tasks.

AdamW on the task's weights, and on the biLM's if it is fine-tuned; the epoch with the best score on
the dev data is kept. An epoch depends on seed and epoch number only, and everything is saved after
each one: an interrupted fit continues with bit-identical numbers on a CPU, and a finished one with
more epochs, unless its learning rates depend on their number (`fit.decay`). (A GPU sums some
gradients in any order, so that last bits may differ there.)
"""

import hashlib
import json
import math
import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmox.config import Strict, validated
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.files import atomic_directory, is_vacant, read_json, to_json
from elmox.io.memory import memory_explained
from elmox.io.progress import Log
from elmox.io.temporary import clear_leftovers
from elmox.io.tensors import digest, read_tensors, write_tensors
from elmox.kernels.tf32 import tf32_products
from elmox.tasks.data.batches import TaskData, predict_all
from elmox.tasks.metrics.tally import format_score
from elmox.tasks.model import MODEL, ModelDescription, TaskModel, read_model, write_model
from elmox.tasks.recipe import by_name
from elmox.training.progress import MetricsLog

PROGRESS = "progress"
UPDATES_AHEAD = 2


@dataclass(frozen=True)
class FitProgress(Strict):
    """The state of a fit.

    Attributes:
        epoch: number of finished epochs.
        best_epoch: the one with the best dev score; 0 before the first.
        best: the scores of that epoch.
        lr: learning rate of the next epoch.
        seconds: time spent, over all runs.
    """

    epoch: int = 0
    best_epoch: int = 0
    best: dict[str, int | float] = field(default_factory=dict)  # an int stays an int when read
    lr: float = 0.0
    seconds: float = 0.0


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
        model: with fresh weights, on the device to fit it on.
        train: the training data.
        dev: the data that selects the best epoch.
        out: a directory for the run. An interrupted run in it is continued, also with another
            number of epochs.
        log: called with lines of progress.

    Returns:
        The model of the best epoch, which is also in `out/model`, and the final state.
    """
    for name in (PROGRESS, MODEL):
        clear_leftovers(out / name)
    if not (out / PROGRESS).exists() and not is_vacant(out / MODEL):  # not made by this run
        raise ArgumentError(
            "{} exists already, without the {} to continue from: choose another {}, or move it "
            "away",
            out / MODEL,
            PROGRESS,
            Argument("out"),
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


class Pace:
    """A bound on how far the host runs ahead of a GPU, a few updates, which sleeps while it waits.

    The GPU always has work queued. Without the bound the host would fill the queue and then spin
    until there is room, which costs other processes on the same CPU, such as other fits, their
    time. On other devices this does nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._queued: deque[torch.cuda.Event] = deque()

    def updated(self) -> None:
        """Count one more queued update, and wait if there are too many."""
        if self._device.type != "cuda":
            return
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        self._queued.append(event)
        if len(self._queued) > UPDATES_AHEAD:
            self._queued.popleft().synchronize()


class _Fit:
    def __init__(
        self, model: TaskModel, train: TaskData, dev: TaskData, out: Path, log: Log
    ) -> None:
        self._model, self._train, self._dev = model, train, dev
        self._out, self._log = out, log
        self._recipe = model.description.recipe.fit
        self._metric = model.task.metric
        self._parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._fused = model.device.type == "cuda"  # one launch, because launches dominate the time
        self._optimizer = torch.optim.AdamW(
            _groups(model), weight_decay=self._recipe.weight_decay, fused=self._fused
        )
        self.progress = FitProgress(lr=self._recipe.lr)
        self._job = _job(model, train, dev)
        if (out / PROGRESS).is_dir():
            self._restore()
        else:
            self._save()  # marks the model of a later epoch as made by this run
        self._metrics = MetricsLog(out, self.progress.epoch)

    def close(self) -> None:
        """Close the metrics log."""
        self._metrics.close()

    def is_over(self) -> bool:
        """Return whether epochs or patience are used up."""
        epoch, best = self.progress.epoch, self.progress.best_epoch
        return epoch >= self._recipe.epochs or epoch - best >= self._recipe.patience

    def epoch(self) -> None:
        """Train on the training data once, score the dev data, save."""
        began = time.monotonic()
        number = self.progress.epoch + 1
        loss = self._train_epoch(number)
        scores = self._model.task.score(self._dev.examples, predict_all(self._model, self._dev))
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
        dev_scores = {f"dev_{name}": value for name, value in scores.items()}
        self._metrics.write(  # before the epoch is saved as done: a kill must not lose its line
            number, {"loss": loss, "lr": lr, **dev_scores, "seconds": self.progress.seconds}
        )
        self._save()
        shown = ", ".join(f"{name} {format_score(value)}" for name, value in scores.items())
        self._log(f"epoch {number}, loss {loss:.4f}, dev {shown}{'' if better else ' (no better)'}")

    def _rate_after(self, number: int) -> float:
        """Return the learning rate of the epoch after this one."""
        recipe, lr = self._recipe, self.progress.lr
        if recipe.decay:
            return recipe.lr * (1 - number / recipe.epochs)
        waited = number - self.progress.best_epoch
        return lr / 2 if waited and waited % max(1, recipe.patience // 2) == 0 else lr

    def _train_epoch(self, number: int) -> float:
        """Run the updates of one epoch and return the mean loss."""
        model, recipe = self._model.train(), self._recipe
        torch.manual_seed(_epoch_seed(recipe.seed, number))
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
        job = _stored_job(path / "job.json")
        epochs_before = job["model"]["recipe"]["fit"]["epochs"]
        job["model"]["recipe"]["fit"]["epochs"] = self._recipe.epochs
        if differing := _differing(job, self._job):
            raise ArgumentError(
                "{} was begun with other settings or other data ({}): continue with those, or "
                "choose another {}",
                self._out,
                ", ".join(differing),
                Argument("out"),
            )
        tensors = read_tensors(path / "state.safetensors")
        weights = {
            name.removeprefix("model."): tensor
            for name, tensor in tensors.items()
            if name.startswith("model.")
        }
        self._model.load(weights, str(path / "state.safetensors"))
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
        self._log(f"continuing after epoch {self.progress.epoch}")
        if epochs_before != self._recipe.epochs:
            self._change_epochs(epochs_before)

    def _change_epochs(self, before: int) -> None:
        """Continue with another number of epochs, as if it had been that from the start."""
        epoch, epochs = self.progress.epoch, self._recipe.epochs
        if epoch and self._recipe.decay:
            raise ArgumentError(
                "{} was begun with fit.epochs={}, is {}: with fit.decay the learning rates of its "
                "{} finished epochs depend on that number, choose another {}",
                self._out,
                before,
                epochs,
                epoch,
                Argument("out"),
            )
        if epochs < epoch:
            raise ArgumentError(
                "{} has {} finished epochs, more than fit.epochs={}: choose another {}",
                self._out,
                epoch,
                epochs,
                Argument("out"),
            )
        if self.progress.best_epoch:
            best = read_model(self._out / MODEL)
            best.description = self._model.description
            write_model(best, self._out / MODEL, force=True)
        self._save()


def _groups(model: TaskModel) -> list[dict[str, Any]]:
    """Return the parameters with their initial rates: the task's weights, ELMo's mix, a biLM."""
    recipe = model.description.recipe
    mix = [] if model.embedder.mix is None else [*model.embedder.mix.parameters()]
    in_mix = set(mix)
    parameters = [*model.embedder.parameters(), *model.head.parameters()]
    bilm = [] if model.finetuned is None else [*model.finetuned.parameters()]
    parts = (
        ([parameter for parameter in parameters if parameter not in in_mix], recipe.fit.lr),
        (mix, recipe.fit.lr * recipe.elmo.mix_rate),
        (bilm, recipe.elmo.lr),
    )
    return [{"params": weights, "initial_lr": lr} for weights, lr in parts if weights]


def _stored_job(path: Path) -> dict[str, Any]:
    """Read what an earlier fit depends on; settings that it did not have yet get their defaults."""
    job = read_json(path)
    return {**job, "model": _values(validated(ModelDescription, job.get("model", {}), str(path)))}


def _values(description: ModelDescription) -> dict[str, Any]:
    """Return a description as it is read back from JSON."""
    values: dict[str, Any] = json.loads(to_json(asdict(description)))
    return values


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """List the differences of two jobs, except paths: digests cover the files' contents."""
    old, new = _settings(before), _settings(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [
        f"{name} was {old.get(name)}, is {new.get(name)}" if "." in name else f"other {name}"
        for name in names
        if name not in ("elmo.model", "words.vectors")
    ]


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe's settings by names like fit.lr, and the rest of a job, mostly digests."""
    rest = {**job["model"], **job}
    del rest["model"], rest["recipe"]
    return {**by_name(job["model"]["recipe"]), **rest}


def _job(model: TaskModel, train: TaskData, dev: TaskData) -> dict[str, Any]:
    """Return everything that a fit depends on, as JSON stores it."""
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


def _epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of an epoch."""
    return (seed * 1_000_003 + epoch) % 2**63
