"""Reports: printed on stdout, and written as NAME.md, NAME.json, NAME.png and NAME.svg."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from elmox.cli.options import Force, Precision, PrintOptions, command_line
from elmox.io.files import refuse_existing, to_json, write_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from elmox.elmo import Elmo
    from elmox.io.progress import Log

_SUFFIXES = (".md", ".json", ".png", ".svg")


class Report(Protocol):
    """A result that can be printed, stored and drawn."""

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON."""
        ...

    def to_markdown(self) -> str:
        """Return the table for people."""
        ...

    def picture(self) -> "Figure":
        """Draw the result."""
        ...


@dataclass(frozen=True)
class ReportOptions:
    """The destination of a report."""

    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write the report to this directory: .md, .json, .png and .svg.",
        ),
    ] = None
    force: Force = False

    def check(self, name: str) -> None:
        """Refuse existing files before anything is computed."""
        if self.out is not None:
            for suffix in _SUFFIXES:
                refuse_existing(self.out / f"{name}{suffix}", self.force)

    def finish(self, report: Report, name: str, show: PrintOptions) -> None:
        """Print a report, and write its files if there is a directory for them."""
        show.result(report.to_dict(), report.to_markdown())
        if self.out is not None:
            write_report(report, self.out, name, force=self.force, log=show.log)


def model_facts(model: str, elmo: "Elmo", precision: Precision) -> dict[str, str]:
    """Describe the command and the model of a report."""
    return {
        "command": command_line(),
        "model": f"{model} ({elmo.description})",
        "precision": f"{precision.value} on {elmo.device.type}",
    }


def write_report(report: Report, out: Path, name: str, *, force: bool, log: "Log") -> None:
    """Write table and JSON, and the picture if matplotlib is installed; all files or none."""
    from elmox import plots

    files: dict[Path, bytes | Callable[[Path], None]] = {
        out / f"{name}.md": report.to_markdown().encode(),
        out / f"{name}.json": to_json(report.to_dict()),
    }
    if plots.can_draw():
        files |= plots.picture_files(report.picture(), out / name)
    else:
        log(f"no {name}.png and {name}.svg: {plots.NO_MATPLOTLIB}")
    write_together(files, force)
