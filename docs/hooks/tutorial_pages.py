"""The pages of the tutorials: their notebooks with the outputs that were saved in them."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File

TUTORIALS = Path(__file__).resolve().parents[1] / "tutorials"
COLORS = re.compile(r"\x1b\[[0-9;]*m")


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook, and its pictures."""
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        pictures: dict[str, bytes] = {}
        text = "\n\n".join(parts(nbformat.read(path, as_version=4), path.stem, pictures))
        files.append(File.generated(config, f"tutorials/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def parts(notebook: Any, name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """Yield the cells and their outputs as Markdown.

    Args:
        notebook: the notebook.
        name: its name.
        pictures: receives the pictures by their file names.
    """
    title, *cells = notebook.cells
    yield title.source
    yield f'<a href="{name}.ipynb" download>Download this page as a notebook</a>'
    for cell in cells:
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield f"```python\n{cell.source}\n```"
        for output in cell.outputs:
            yield _output(output, name, pictures)


def _output(output: Any, name: str, pictures: dict[str, bytes]) -> str:
    if output.output_type == "stream":
        return _block(output.text)
    if picture := output.data.get("image/png"):
        file = f"{name}_{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(picture)
        title = output.metadata.get("image/png", {}).get("alt", "The figure that this code draws")
        return f"![{title}]({file})"
    return _block(output.data["text/plain"])


def _block(text: str) -> str:
    return f"```text\n{COLORS.sub('', text).rstrip()}\n```"
