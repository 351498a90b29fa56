"""Progress for people: lines of a log, and a bar over tokens."""

import sys
import time
from collections.abc import Callable
from typing import Any, Self

Log = Callable[[str], None]

LOG_SECONDS = 30.0
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


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it: `40 s`, `2.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


class ReadingProgress:
    """Progress through a text: a bar with the time left, or a line of a log every 30 seconds."""

    def __init__(
        self, total: int | None, start: int, show_bar: bool, log: Log | None, unit: str = "B"
    ) -> None:
        """Args:
        total: size of the text in any unit; None if it is not known.
        start: the position from which on it is read.
        show_bar: show a bar on stderr.
        log: receives the lines, if there is no bar.
        unit: of the size.
        """
        from tqdm import tqdm

        self._total, self._start, self._position = total, start, start
        self._log = None if show_bar else log
        self._tokens = 0
        self._began = self._logged = time.monotonic()
        self._bar = tqdm(
            total=total,
            initial=start if total else 0,
            unit=unit if total else "tok",
            unit_scale=True,
            disable=not show_bar,
        )

    def advance(self, position: int, num_tokens: int) -> None:
        """Report that the text is done up to a position, which took so many more tokens."""
        self._tokens += num_tokens
        self._bar.update(position - self._position if self._total else num_tokens)
        self._position = position
        now = time.monotonic()
        seconds = max(1e-9, now - self._began)
        rate = self._tokens / seconds
        self._bar.set_postfix_str(f"{rate:,.0f} tok/s", refresh=False)
        if self._log is None or now - self._logged < LOG_SECONDS:
            return
        self._logged = now
        line = f"{self._tokens:,} tokens, {rate:,.0f} tokens/s"
        if self._total and position > self._start:
            left = seconds * (self._total - position) / (position - self._start)
            line = f"{position / self._total:.0%}, {line}, {duration(left)} left"
        self._log(line)

    def __enter__(self) -> Self:
        """Return the progress itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the bar; without an exception the text is done."""
        if kind is None and self._total:
            self._bar.update(self._total - self._position)
        self._bar.close()


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules
