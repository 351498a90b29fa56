"""What a run reports: metrics.jsonl always, TensorBoard if installed, a bar or plain lines.

The loss of sampled softmax is called that: it is far below the real one, and its exponential is no
perplexity. Perplexities here are of the full softmax on held-out text.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from elmox.io.files import atomic_write

Log = Callable[[str], None]

LONG_WORK_TOKENS = 50_000  # some seconds on a CPU


def token_bar(num_tokens: int, show: bool | None) -> Any:
    """Return a progress bar over tokens, on stderr or in a notebook.

    Args:
        num_tokens: the total.
        show: None shows it on a terminal or in a notebook if the work is long.
    """
    if show is None:
        show = num_tokens >= LONG_WORK_TOKENS and (sys.stderr.isatty() or _in_notebook())
    if show and _in_notebook():
        from tqdm.auto import tqdm as bar
    else:
        from tqdm import tqdm as bar
    return bar(total=num_tokens, unit="tok", unit_scale=True, disable=not show)


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


class MetricsLog:
    """A line of JSON for every report, in the order of steps."""

    def __init__(self, folder: Path, step: int) -> None:
        """Go on after `step`: what an interrupted run reported beyond it will come again."""
        self._path = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if 0 <= _step(line) <= step]
        with atomic_write(self._path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")
        self._file = self._path.open("a", encoding="utf-8")
        self._board = _tensorboard(folder / "tensorboard", step)

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Report something after `step` updates."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Nothing more will come."""
        self._file.close()
        if self._board is not None:
            self._board.close()

    def _lines(self) -> list[str]:
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]  # a killed run may leave half a line


class ProgressReport:
    """Steps done and to come, for people: a bar on a terminal, lines elsewhere."""

    def __init__(
        self, log: Log, bar: bool, step: int, num_steps: int, tokens_per_step: int
    ) -> None:
        self._log, self._num_steps, self._tokens_per_step = log, num_steps, tokens_per_step
        self._bar = tqdm(
            total=num_steps * tokens_per_step,
            initial=step * tokens_per_step,
            unit="tok",
            unit_scale=True,
            disable=not bar,
        )
        self._at = (step, time.monotonic())

    def advance(self) -> None:
        """One step more."""
        self._bar.update(self._tokens_per_step)

    def speed(self, step: int) -> float:
        """Tokens a second since the last call."""
        before, then = self._at
        self._at = (step, time.monotonic())
        return (step - before) * self._tokens_per_step / max(1e-9, self._at[1] - then)

    def pause(self, seconds: float) -> None:
        """Time that was not spent on steps: it does not count as slowness."""
        self._at = (self._at[0], self._at[1] + seconds)

    def line(self, step: int, epoch: float, epochs: float, speed: float, text: str) -> None:
        """Log how it goes."""
        left = (self._num_steps - step) * self._tokens_per_step / max(speed, 1e-9)
        what = f"epoch {epoch:.2f} of {epochs:.2f}, {text}"
        if self._bar.disable:
            pace = f"{speed:,.0f} tokens/s, {duration(left)} left"
            self._log(f"step {step}/{self._num_steps}, {what}, {pace}")
        else:
            self._bar.set_postfix_str(what)

    def tell(self, message: str) -> None:
        """Something that should stay on the screen."""
        if self._bar.disable:
            self._log(message)
        else:
            self._bar.write(message, file=self._bar.fp)

    def close(self) -> None:
        """The last word was said."""
        self._bar.close()


def duration(seconds: float) -> str:
    """A time in words that people use."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _step(line: str) -> int:
    """The step of a line; -1 where a crash left something else than a line."""
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
