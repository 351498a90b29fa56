"""The package's entry points in a folder, as an installation of the present sources has them."""

import os
import tomllib
from pathlib import Path

from shell import environment

from elmox import __version__

ROOT = Path(__file__).resolve().parents[2]


def installed_environment(folder: Path, **variables: str) -> dict[str, str]:
    """Write the metadata of the package into a folder; return variables that put it on the path."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    metadata = folder / f"elmox-{__version__}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: elmox\nVersion: {__version__}\n", "utf-8"
    )
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    return environment() | {"PYTHONPATH": path} | variables
