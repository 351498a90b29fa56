"""The tutorials: notebooks that run, and that are those of their scripts."""

import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCRIPTS = sorted((DOCS / "tutorials").glob("*.py"))
NOTEBOOKS = runpy.run_path(str(DOCS / "hooks" / "notebooks.py"))
EPOCHS = re.compile(r"(fit\.epochs\W+)40\b")

every_tutorial = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@every_tutorial
def test_the_notebook_is_that_of_the_script(script: Path) -> None:
    """Otherwise the page shows outputs of other code: `make tutorials` saves new ones."""
    saved = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    assert sources(saved) == sources(NOTEBOOKS["notebook"](script))
    code = [cell for cell in saved.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any(cell.outputs for cell in code)
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]


@every_tutorial
def test_tutorials_run(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if (data := script.parent / "data").is_dir():
        shutil.copytree(data, tmp_path / "data")
    notebook = NOTEBOOKS["notebook"](script)
    for cell in notebook.cells:
        cell.source = EPOCHS.sub(r"\g<1>3", cell.source)  # enough to see that it runs
    NOTEBOOKS["execute"](notebook, tmp_path)


def test_every_tutorial_is_in_the_list() -> None:
    page = (DOCS / "tutorials" / "index.md").read_text("utf-8")
    assert all(f"({script.stem}.md)" in page for script in SCRIPTS)
