"""A whole training run: from a recipe to a model, in one go or in many.

out/
  recipe.toml        the resolved recipe
  metrics.jsonl      every report
  checkpoints/       the last two, to go on from
  best/              the model with the lowest held-out perplexity   (where text is held out)
  last/              the model as the run left it
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from elmox.errors import ElmoxError
from elmox.files import atomic_write
from elmox.hub import write_directory
from elmox.train.checkpoint import Progress, checkpoints, read_checkpoint, write_checkpoint
from elmox.train.corpus import Corpus, open_corpus
from elmox.train.distributed import Processes, processes, was_restarted
from elmox.train.log import MetricsLog, ProgressReport, Say
from elmox.train.recipe import Recipe
from elmox.train.start import starting_point
from elmox.train.trainer import StepReport, Trainer


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        step: updates done, of `num_steps`.
        loss: the last reported (sampled softmax's, where the recipe says so).
        perplexity: the last on held-out text; None where none was measured.
        best_perplexity: the lowest.
        signal: what told it to stop before the end, if anything did.
        stopped_early: whether held-out perplexity stopped getting better.
    """

    step: int
    num_steps: int
    loss: float | None
    perplexity: float | None
    best_perplexity: float | None
    signal: int | None = None
    stopped_early: bool = False


def train(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    device: str | None = None,
    say: Say = lambda message: None,
    show_progress_bar: bool = False,
) -> Outcome:
    """Train a biLM.

    Args:
        recipe: what to do.
        out: the run's directory.
        resume: go on from the last checkpoint in `out`; from the beginning where there is none.
        device: cpu, cuda; a GPU if there is one by default.
        say: told how it goes, a line at a time.
        show_progress_bar: a bar on stderr instead of most lines.
    """
    corpus = open_corpus(Path(recipe.data.dir))
    with processes(device) as everyone, _stop_signals() as stop:
        told = say if everyone.is_first else lambda message: None
        run = _Run(recipe, out, corpus, everyone, told)
        run.begin(resume or was_restarted())
        return run.go(stop, show_progress_bar and everyone.is_first)


class _Run:
    """A run in one process."""

    def __init__(
        self, recipe: Recipe, out: Path, corpus: Corpus, everyone: Processes, say: Say
    ) -> None:
        self._recipe, self._out, self._corpus = recipe, out, corpus
        self._everyone, self._say = everyone, say
        self._trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), everyone)
        self._progress = Progress(0, corpus.info.digest)
        self._loss: float | None = None
        self._perplexity: float | None = None

    def begin(self, resume: bool) -> None:
        """Make the directory, or go on from what is in it."""
        found = checkpoints(self._out / "checkpoints")
        if not resume and self._out.exists() and any(self._out.iterdir()):
            how = "go on with --resume, or choose" if found else "choose"
            raise ElmoxError(f"{self._out} is not empty: {how} another directory")
        if found:
            stored = read_checkpoint(found[-1], self._recipe, self._corpus.info.digest)
            self._trainer.restore(stored.tensors, stored.progress.step)
            self._progress = stored.progress
            self._say(f"going on from {found[-1]}, after {stored.progress.step} steps")
        elif resume:
            self._say(f"no checkpoint in {self._out} yet: starting from the beginning")
        self._everyone.wait()  # nobody writes while another one still looks
        if self._everyone.is_first:
            with atomic_write(self._out / "recipe.toml") as path:
                path.write_text(self._recipe.to_toml(), encoding="utf-8")

    def go(self, stop: "_Stop", bar: bool) -> Outcome:
        """Train until the end, a signal, or no more improvement."""
        trainer, report = self._trainer, self._recipe.report
        tokens = self._recipe.train.rows * self._recipe.train.steps
        self._report = ProgressReport(self._say, bar, trainer.step, trainer.num_steps, tokens)
        self._metrics = MetricsLog(self._out, trainer.step) if self._everyone.is_first else None
        stopping, early = False, self._out_of_patience()
        losses: list[float] = []
        began, before = time.monotonic(), self._progress.seconds
        try:
            for batches in () if early else trainer.batches():
                step = trainer.advance(batches, stop.signal is not None)
                self._report.advance()
                losses.append(step.loss)
                stopping, last = step.stopping, trainer.step == trainer.num_steps
                seconds = before + time.monotonic() - began
                self._progress = replace(self._progress, step=trainer.step, seconds=seconds)
                if last or stopping or trainer.step % report.log_every == 0:
                    self._log(step, losses)
                    losses = []
                if not stopping and (last or _due(trainer.step, report.eval_every)):
                    early = self._evaluate()
                done = last or stopping or early
                if done or trainer.step % report.save_every == 0:
                    self._save()
                if done:
                    break
            self._write_model("last")
        finally:
            self._report.close()
            if self._metrics is not None:
                self._metrics.close()
        return Outcome(
            step=trainer.step,
            num_steps=trainer.num_steps,
            loss=self._loss,
            perplexity=self._perplexity,
            best_perplexity=self._progress.best_perplexity,
            # Another process's signal is as good as ours.
            signal=(stop.signal or signal.SIGTERM) if stopping else None,
            stopped_early=early,
        )

    def _log(self, step: StepReport, losses: list[float]) -> None:
        name = "sampled_loss" if self._recipe.softmax.loss == "sampled" else "loss"
        self._loss = float(np.mean(losses))
        done, per_epoch = self._trainer.step, self._trainer.rows.steps_per_epoch
        speed = self._report.speed(done)
        values = {
            "epoch": done / per_epoch,
            name: self._loss,
            "grad_norm": step.grad_norm,
            "lr": step.lr,
            "tokens_per_second": speed,
            "seconds": self._progress.seconds,
        }
        if self._metrics is not None:
            self._metrics.write(done, values)
        text = f"{name.replace('_', ' ')} {self._loss:.4f}"
        epochs = self._trainer.num_steps / per_epoch
        self._report.line(done, done / per_epoch, epochs, speed, text)

    def _evaluate(self) -> bool:
        """Held-out perplexity. Returns whether to stop because it does not get better."""
        if self._corpus.valid is None:
            return False
        began = time.monotonic()
        told = [0.0]
        if self._metrics is not None:
            found = self._trainer.held_out(self._recipe.report.eval_rows)
            told = [found.perplexity]
            values = {
                "perplexity": found.perplexity,
                "forward_perplexity": found.forward_perplexity,
                "backward_perplexity": found.backward_perplexity,
                "unknown_share": found.num_unknown / found.num_positions,
            }
            self._metrics.write(self._trainer.step, values)
        perplexity = self._perplexity = self._everyone.from_first(told)[0]
        best = self._progress.best_perplexity
        message = f"held-out perplexity {perplexity:.2f} after {self._trainer.step} steps"
        if best is None or perplexity < best:
            self._progress = replace(self._progress, best_perplexity=perplexity, num_worse=0)
            self._write_model("best")
        else:
            self._progress = replace(self._progress, num_worse=self._progress.num_worse + 1)
            message += f" (the best was {best:.2f})"
        self._report.tell(message)
        self._report.pause(time.monotonic() - began)
        return self._out_of_patience()

    def _out_of_patience(self) -> bool:
        return 0 < self._recipe.report.patience <= self._progress.num_worse

    def _save(self) -> None:
        began = time.monotonic()
        tensors = self._trainer.tensors()
        if self._everyone.is_first:
            write_checkpoint(self._out / "checkpoints", self._progress, self._recipe, tensors)
        self._everyone.wait()
        self._report.pause(time.monotonic() - began)

    def _write_model(self, name: str) -> None:
        if self._everyone.is_first:
            write_directory(self._trainer.model(), self._out / name, force=True)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


class _Stop:
    """Whether a signal came."""

    signal: int | None = None


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """SIGINT and SIGTERM end the run after the present step; a second one ends it at once."""
    stop = _Stop()
    before: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        restore()

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
    except ValueError:  # not in the main thread: whoever started the thread decides
        before.clear()
    try:
        yield stop
    finally:
        restore()
