"""Recipes that come with elmox: TOML files with all settings of a run, found by name.

tiny, english-small, english-original, 1b-original      for `elmox train`
tasks/                                                  one per task, for `elmox fit`
"""

from importlib.resources import files
from pathlib import Path

from elmox.errors import ElmoxError


def recipe_names(*, task: bool = False) -> list[str]:
    """Return the names of the recipes for training, or of those for tasks."""
    return sorted(path.stem for path in _folder(task).glob("*.toml"))


def find_recipe(name: str | Path, *, task: bool = False) -> Path:
    """Return the path of a recipe.

    Args:
        name: the path of a TOML file, or the name of a recipe that comes with elmox. A file of that
            name comes first.
        task: look among the recipes for tasks rather than those for training.
    """
    path, names = Path(name), recipe_names(task=task)
    if path.exists() and not path.is_dir():
        return path
    if str(name) in names:
        return _folder(task) / f"{name}.toml"
    raise ElmoxError(
        f"{name} does not exist: give the path of a TOML file, or the name of a recipe that comes "
        f"with elmox ({', '.join(names)})"
    )


def _folder(task: bool) -> Path:
    folder = Path(str(files("elmox").joinpath("recipes")))
    return folder / "tasks" if task else folder
