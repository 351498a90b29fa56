"""Commands as they are shown, without absolute paths."""

import re
import shlex
from collections.abc import Sequence

from machine import ROOT

SCRIPT = "benchmarks/tasks/run.py"

# Where a word, a dot or a colon comes before the slash, it is a relative path or an address.
_ABSOLUTE = re.compile(r"""(?<![\w.~:/\\])(?:[A-Za-z]:[\\/]|/)[^\s'"`,;|)\]]+""")


def without_absolute_paths(text: str) -> str:
    """Shorten paths to those relative to the repository, and paths elsewhere to the file name."""
    return _ABSOLUTE.sub(lambda match: _relative(match.group()), text)


def _relative(path: str) -> str:
    root = f"{ROOT}/"
    if path.startswith(root):
        return path.removeprefix(root) or "."
    return re.split(r"[\\/]+", path.rstrip("/\\"))[-1]


def with_current_script(text: str) -> str:
    """Replace the script's former path, which older records have, so that commands can be run."""
    return text.replace("python benchmarks/tasks.py ", f"python {SCRIPT} ")


def shown_command(arguments: Sequence[str]) -> str:
    """The command line of `run.py` with these arguments, without absolute paths."""
    shown = [without_absolute_paths(argument) for argument in arguments]
    return f"python {SCRIPT} {shlex.join(shown)}"
