"""Reports of a training run: metrics.jsonl always, TensorBoard if installed, a bar or plain lines.

The loss of sampled softmax is reported under that name: it is far below the loss of the full
softmax, and its exponential is no perplexity. Perplexities here are of the full softmax on held-out
text.
"""

import json
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from elmox.io.files import atomic_write
from elmox.io.progress import Log, duration


class MetricsLog:
    """metrics.jsonl: a line of JSON for every report, in the order of steps."""

    def __init__(self, folder: Path, step: int) -> None:
        """Continue after `step`, and drop what an interrupted run reported beyond it."""
        self._path = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if 0 <= _step(line) <= step]
        with atomic_write(self._path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder / "tensorboard", step)

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Report values after `step` updates."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()

    def _lines(self) -> list[str]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]  # a killed run may leave half a line


class ProgressReport:
    """Progress for people: a bar on a terminal, lines elsewhere.

    Attributes:
        num_steps: number of steps of the whole run, as far as it is known.
    """

    def __init__(
        self, log: Log, bar: bool, step: int, num_steps: int, tokens_per_step: int
    ) -> None:
        self._log, self.num_steps, self._tokens_per_step = log, num_steps, tokens_per_step
        self._bar = tqdm(
            total=num_steps * tokens_per_step,
            initial=step * tokens_per_step,
            unit="tok",
            unit_scale=True,
            disable=not bar,
        )
        self._at = (step, time.monotonic())

    def advance(self) -> None:
        """Count one step."""
        self._bar.update(self._tokens_per_step)

    def speed(self, step: int) -> float:
        """Return the tokens per second since the last call."""
        before, then = self._at
        self._at = (step, time.monotonic())
        return (step - before) * self._tokens_per_step / max(1e-9, self._at[1] - then)

    def pause(self, seconds: float) -> None:
        """Leave time that was not spent on steps out of the speed."""
        self._at = (self._at[0], self._at[1] + seconds)

    def line(self, step: int, epoch: float, epochs: float, speed: float, text: str) -> None:
        """Report the state of the run after `step`."""
        left = (self.num_steps - step) * self._tokens_per_step / max(speed, 1e-9)
        progress = f"epoch {epoch:.2f} of {epochs:.2f}, {text}"
        if self._bar.disable:
            pace = f"{speed:,.0f} tokens/s, {duration(left)} left"
            self._log(f"step {step}/{self.num_steps}, {progress}, {pace}")
        else:
            self._bar.total = self.num_steps * self._tokens_per_step
            self._bar.set_postfix_str(progress)

    def message(self, text: str) -> None:
        """Report something that should stay on the screen."""
        if self._bar.disable:
            self._log(text)
        else:
            self._bar.write(text, file=self._bar.fp)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()


def _step(line: str) -> int:
    """Return the step of a line; -1 if a crash left something else."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return -1


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    writer: Any = SummaryWriter
    return writer(str(folder), purge_step=step + 1)
