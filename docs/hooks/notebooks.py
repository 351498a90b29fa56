"""The notebooks of the tutorials, made of scripts, with their outputs.

    python docs/hooks/notebooks.py [NAME ...]

A tutorial is written as `docs/tutorials/NAME.py`: a cell begins with `# %%`, a cell of Markdown
with `# %% [markdown]` and its lines with `# `. This runs the cells and writes `NAME.ipynb`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parents[1] / "tutorials"
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
SECONDS = 600  # for a cell, on a busy machine


def cells(script: str) -> Iterator[Any]:
    """Yield the cells of a script, without outputs."""
    _, *parts = CELL.split(script)
    for is_markdown, text in zip(parts[::2], parts[1::2], strict=True):
        if is_markdown:
            lines = [line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines()]
            yield nbformat.v4.new_markdown_cell("\n".join(lines))
        else:
            yield nbformat.v4.new_code_cell(text.strip())


def notebook(script: Path) -> Any:
    """Make a notebook of a script; its cells have not run."""
    made = nbformat.v4.new_notebook(cells=list(cells(script.read_text("utf-8"))))
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # by default it is random, and every version differs
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return made


def execute(made: Any, folder: Path = TUTORIALS) -> None:
    """Run the cells in a folder; the outputs are added to the notebook."""
    client = NotebookClient(
        made, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    made.metadata.pop("language_info", None)  # the version of Python that happened to run it
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times of day


def main(names: list[str]) -> None:
    """Run the tutorials of these names, or all."""
    for script in sorted(TUTORIALS.glob("*.py")):
        if not names or script.stem in names:
            made = notebook(script)
            execute(made)
            nbformat.write(made, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    main(sys.argv[1:])
