"""The page of the recipes that come with the package, as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

import elmox.recipes

PAGE = "reference/recipes.md"
FOLDERS = {"": "Training a biLM", "tasks": "Task models"}
INTRODUCTION = """\
# Recipes

A recipe is a TOML file; what it leaves out has its default. These come with the package and are
found by their names. To change one, copy it to a file and pass its path, or use
`--set section.key=value`. The settings are explained under [Training](../training.md#recipes) and
[Tasks](../tasks/index.md#fitting).
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the page."""
    files.append(File.generated(config, PAGE, content="\n".join(page())))
    return files


def page() -> Iterator[str]:
    """Yield the page's parts: one block per recipe."""
    yield INTRODUCTION
    folder = Path(elmox.recipes.__file__).parent
    for name, heading in FOLDERS.items():
        yield f"## {heading}\n"
        for path in sorted((folder / name).glob("*.toml")):
            yield f"### {path.stem}\n\n```toml\n{path.read_text('utf-8').rstrip()}\n```\n"
