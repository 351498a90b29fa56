"""The files of a probe's report: OUT/NAME.md, NAME.json, NAME.png and NAME.svg."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import typer

from elmox.io.files import refuse_existing, to_json, write_together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OutDirectory: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Also write the report into this directory: as .md, .json, .png and .svg.",
        show_default=False,
    ),
]


class Report(Protocol):
    """What is written of a report."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        ...

    def to_markdown(self) -> str:
        """For people."""
        ...

    def picture(self) -> "Figure":
        """For the eye."""
        ...


def check_files(out: Path | None, name: str, force: bool) -> None:
    """Before anything is computed: what will be written may be."""
    for suffix in (".md", ".json", ".png", ".svg"):
        if out is not None:
            refuse_existing(out / f"{name}{suffix}", force)


def write_files(report: Report, out: Path, name: str, force: bool) -> None:
    """Table and JSON, and the picture where it can be drawn; all of them or none."""
    from elmox import plots

    files: dict[Path, bytes | Callable[[Path], None]] = {
        out / f"{name}.md": report.to_markdown().encode(),
        out / f"{name}.json": to_json(report.to_dict()),
    }
    if plots.can_draw():
        files |= plots.picture_files(report.picture(), out / name)
    else:
        typer.echo(f"elmox: no {name}.png and {name}.svg: {plots.NO_MATPLOTLIB}", err=True)
    write_together(files, force)
