"""A training run, from a recipe to a model; it can be interrupted and resumed."""

import math
import signal
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.memory import memory_explained
from elmox.io.progress import Log
from elmox.pretrained.native import write_directory
from elmox.training.checkpoint import (
    RunProgress,
    checkpoints,
    read_checkpoint,
    write_checkpoint,
)
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.distributed import Processes, processes
from elmox.training.progress import MetricsLog, ProgressReport
from elmox.training.recipe import Recipe
from elmox.training.run_directory import enter
from elmox.training.start import starting_point
from elmox.training.stop import Stop, stop_signals
from elmox.training.trainer import Pending, StepReport, Trainer


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        step: number of updates done, of `num_steps`.
        loss: the last reported one since the run was started or resumed; of the sampled softmax, if
            the recipe has that.
        perplexity: the last one on held-out text; None if none was measured.
        best_perplexity: the lowest one.
        signal: number of the signal that stopped the run, if any.
        stopped_early: whether the run ended because the held-out perplexity did not improve.
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
    verify: bool = True,
    log: Log = lambda message: None,
    show_progress_bar: bool = False,
) -> Outcome:
    """Train a biLM.

    Args:
        recipe: the settings of the run.
        out: the run's directory; see `training/run_directory.py`.
        resume: continue from the last checkpoint in `out`; without one, start from the beginning.
        device: cpu or cuda; by default a GPU if there is one.
        verify: read the whole corpus first and compare its checksums.
        log: called with each line of progress.
        show_progress_bar: show a bar on stderr instead of most lines.
    """
    with processes(device) as group, stop_signals() as stop, memory_explained():
        bar = show_progress_bar and group.is_first
        # A separate function, because the model must be released before the processes are.
        return _train(recipe, out, resume, group, stop, verify, log, bar)


def _train(
    recipe: Recipe,
    out: Path,
    resume: bool,
    group: Processes,
    stop: Stop,
    verify: bool,
    log: Log,
    bar: bool,
) -> Outcome:
    log = log if group.is_first else lambda message: None
    corpus = open_corpus(Path(recipe.data.dir))
    with ExitStack() as held:

        def begin() -> Path | None:
            # Before anything is written. A change that keeps a file's size shows only in its
            # checksum.
            open_corpus(corpus.path, verify=verify)
            return enter(out, recipe, resume, held)

        checkpoint = group.agreed(begin)
        run = _Run(recipe, out, corpus, group, log)
        if checkpoint is not None:
            run.restore(checkpoint)
        elif resume:
            log(f"no checkpoint in {out} yet: starting from the beginning")
        return run.go(stop, bar)


class _Run:
    """A run in one process."""

    def __init__(
        self, recipe: Recipe, out: Path, corpus: Corpus, group: Processes, log: Log
    ) -> None:
        self._recipe, self._out, self._corpus = recipe, out, corpus
        self._group, self._log = group, log
        self._trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), group)
        self._progress = RunProgress(0, corpus.info.digest)
        self._loss: float | None = None
        self._unread: deque[Pending] = deque()  # steps on the device, oldest first
        tokens = recipe.train.rows * recipe.train.steps
        self._epochs_per_step = tokens / corpus.train.num_positions
        if self._epochs_per_step > 1:
            log(
                f"warning: a step of {tokens:,} tokens reads the text "
                f"{self._epochs_per_step:.1f} times: choose fewer train.rows"
            )

    def restore(self, checkpoint: Path) -> None:
        """Continue from a checkpoint, which every process must be able to read."""
        progress, tensors = read_checkpoint(checkpoint, self._recipe, self._progress.corpus)
        if progress.num_steps is not None:
            self._trainer.num_steps = min(self._trainer.num_steps, progress.num_steps)
        self._trainer.restore(tensors, progress.step, progress.lr)
        self._progress = progress
        self._log(f"resuming from {checkpoint}, after {progress.step} steps")

    def go(self, stop: Stop, bar: bool) -> Outcome:
        """Train until the last step, a signal, or early stopping."""
        trainer, report = self._trainer, self._recipe.report
        tokens = self._recipe.train.rows * self._recipe.train.steps
        self._report = ProgressReport(self._log, bar, trainer.step, trainer.num_steps, tokens)
        self._metrics = MetricsLog(self._out, trainer.step) if self._group.is_first else None
        stopping = False
        self._began = time.monotonic() - self._progress.seconds
        try:
            if self._is_evaluation_due():  # a signal came at this step
                self._evaluate()
                self._save()
            for batches in () if self._is_over() else trainer.batches():
                self._unread.append(trainer.advance(batches, stop.signal is not None))
                stopping = self._read_reports(num_unread=1)
                if stopping or self._is_anything_due():
                    stopping |= self._read_reports()
                if self._is_due(report.log_every):
                    self._log_step(self._last)
                if not stopping and self._is_evaluation_due():
                    self._evaluate()
                ending = stopping or self._is_over()
                if ending or self._is_due(report.save_every):
                    self._save()
                if ending:
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
            perplexity=self._progress.perplexity,
            best_perplexity=self._progress.best_perplexity,
            # The signal may have reached only another process.
            signal=(stop.signal or signal.SIGTERM) if stopping else None,
            stopped_early=not stopping and trainer.step < trainer.num_steps,
        )

    def _is_due(self, every: int) -> bool:
        step = self._trainer.step
        return step > 0 and (step == self._trainer.num_steps or (every > 0 and step % every == 0))

    def _is_evaluation_due(self) -> bool:
        new = self._progress.evaluated != self._trainer.step
        held_out = self._corpus.valid is not None
        return held_out and new and self._is_due(self._recipe.report.eval_every)

    def _is_over(self) -> bool:
        out_of_patience = 0 < self._recipe.report.patience <= self._progress.num_worse
        return self._trainer.step >= self._trainer.num_steps or out_of_patience

    def _is_anything_due(self) -> bool:
        """Return whether a report, evaluation or checkpoint needs the last step's result."""
        report = self._recipe.report
        return (
            self._is_evaluation_due()
            or self._is_due(report.log_every)
            or self._is_due(report.save_every)
        )

    def _read_reports(self, num_unread: int = 0) -> bool:
        """Read the results of queued steps, except the last `num_unread`.

        Reading a result waits for its step. With one step unread, the device has work while the
        host prepares the next.

        Returns:
            Whether any process has received a signal to stop.
        """
        stopping = False
        while len(self._unread) > num_unread:
            self._last = self._unread.popleft().get()
            self._count(self._last)
            stopping |= self._last.stopping
        return stopping

    def _count(self, step: StepReport) -> None:
        self._report.advance()
        self._progress = replace(
            self._progress,
            step=step.step,
            lr=step.lr,
            seconds=time.monotonic() - self._began,
            loss_sum=self._progress.loss_sum + step.loss,
            loss_count=self._progress.loss_count + 1,
        )

    def _log_step(self, step: StepReport) -> None:
        name = "sampled_loss" if self._recipe.softmax.loss == "sampled" else "loss"
        self._loss = self._progress.loss_sum / self._progress.loss_count
        self._progress = replace(self._progress, loss_sum=0.0, loss_count=0)
        done = self._trainer.step
        speed = self._report.speed(done)
        self._limit_time()
        epoch, epochs = (n * self._epochs_per_step for n in (done, self._report.num_steps))
        if self._metrics is not None:
            values = {
                "epoch": epoch,
                name: self._loss,
                **({} if step.teacher_loss is None else {"teacher_loss": step.teacher_loss}),
                "grad_norm": step.grad_norm,
                "lr": step.lr,
                "tokens_per_second": speed,
                "seconds": self._progress.seconds,
            }
            self._metrics.write(done, values)
        text = f"{name.replace('_', ' ')} {self._loss:.4f}"
        self._report.line(done, epoch, epochs, speed, text)
        self._progress = replace(self._progress, course=self._progress.course.after(self._loss))
        if self._progress.course.has_diverged:
            raise ElmoxError(self._divergence())

    def _limit_time(self) -> None:
        """Estimate how many steps fit into `train.max_hours`, and set the run's end in time."""
        hours, decay = self._recipe.train.max_hours, self._recipe.optim.decay_steps
        step, planned = self._trainer.step, self._trainer.num_steps
        if hours is None or self._progress.num_steps is not None or planned - step <= decay:
            return
        # Over the whole run, with evaluations: a pause of one report must not end it.
        pace = self._progress.seconds / step
        left = 3600 * hours - self._progress.seconds
        fitting = self._group.agreed(lambda: max(decay, int(left / pace)))
        end = min(planned, step + fitting)
        self._report.num_steps = end
        if end < planned and fitting <= decay + self._recipe.report.log_every:
            self._trainer.num_steps = end
            self._progress = replace(self._progress, num_steps=end)
            self._report.message(f"train.max_hours {hours:g}: ends at step {end}")

    def _divergence(self) -> str:
        """Return the error message, with the models that remain."""
        course = self._progress.course
        saved = [str(self._out / "best")] if self._progress.best_perplexity is not None else []
        saved += map(str, checkpoints(self._out / "checkpoints"))
        return (
            f"step {self._trainer.step}: training has diverged: the loss started at "
            f"{course.first:.2f}, fell to {course.lowest:.2f} and is back at {self._loss:.2f}; "
            "start again with a lower optim.lr or optim.clip_norm, or more optim.warmup"
            + (f" (saved before: {', '.join(saved)})" if saved else "")
        )

    def _evaluate(self) -> None:
        """Measure the held-out perplexity in the first process, for all of them."""
        began = time.monotonic()
        perplexity = self._group.agreed(self._held_out)
        best, step = self._progress.best_perplexity, self._trainer.step
        message = f"held-out perplexity {perplexity:.2f} after {step} steps"
        self._progress = replace(self._progress, evaluated=step, perplexity=perplexity)
        if best is None or perplexity < best:
            self._progress = replace(self._progress, best_perplexity=perplexity, num_worse=0)
            self._write_model("best")
        else:
            self._progress = replace(self._progress, num_worse=self._progress.num_worse + 1)
            message += f" (the best was {best:.2f})"
        self._report.message(message)
        self._report.pause(time.monotonic() - began)

    def _held_out(self) -> float:
        valid = self._corpus.info.valid
        assert valid is not None
        assert self._metrics is not None
        scores = self._trainer.held_out(self._recipe.report.eval_rows)
        if not math.isfinite(scores.perplexity):
            raise ElmoxError(
                f"step {self._trainer.step}: the held-out perplexity is {scores.perplexity}: lower "
                "optim.lr, or raise optim.warmup"
            )
        values = {
            "perplexity": scores.perplexity,
            "forward_perplexity": scores.forward_perplexity,
            "backward_perplexity": scores.backward_perplexity,
            "unknown_share": scores.num_unknown / valid.num_tokens,
        }
        self._metrics.write(self._trainer.step, values)
        return scores.perplexity

    def _save(self) -> None:
        began = time.monotonic()
        self._trainer.check_finite()
        tensors = self._trainer.tensors()
        if self._group.is_first:
            write_checkpoint(self._out / "checkpoints", self._progress, self._recipe, tensors)
        self._group.wait()
        self._report.pause(time.monotonic() - began)

    def _write_model(self, name: str) -> None:
        self._trainer.check_finite()
        if self._group.is_first:
            write_directory(self._trainer.model(), self._out / name, force=True)
