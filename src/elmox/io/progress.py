"""Progress for people: lines of a log, and a bar over tokens."""

import sys
from collections.abc import Callable
from typing import Any

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
