"""Write a model as Python projects that pip installs: `packages/NAME`, `packages/NAME-softmax`.

pyproject.toml             the distribution elmox-NAME, with an entry point
README.md LICENSE          the model's card, the license of its weights
src/elmox_NAME/            package.json, model/ (see `packages.py`)
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from elmox.config import BUNDLED
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.checksums import CHECKSUMS_FILE
from elmox.io.files import atomic_directory, read_json, refuse_existing, to_json
from elmox.model.checkpoint import build_bilm, build_indexer, build_softmax, checkpoint_digest
from elmox.pretrained.card import card_body, card_license
from elmox.pretrained.native import (
    CONFIG_FILE,
    SOFTMAX_FILE,
    TAGGERS_FOLDER,
    VOCAB_FILE,
    is_model_directory,
    read_directory,
)
from elmox.pretrained.packages import (
    MODEL_FOLDER,
    MODELS,
    PACKAGE_FILE,
    PACKAGE_FORMAT,
    SOFTMAXES,
    TAGGERS,
    PackageFacts,
    distribution_of,
    elmox_version,
    is_model_name,
)

_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.(post|dev)\d+)?")

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.25"]
build-backend = "hatchling.build"

[project]
name = {distribution}
version = {version}
description = {description}
readme = "README.md"
license = {license}
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = {dependencies}

[project.entry-points.{group}]
{name} = {module}

[tool.hatch.build.targets.wheel]
packages = [{source}]

[tool.hatch.build.targets.sdist]
include = ["src", "README.md", "LICENSE"]
"""
_README = """\
# {distribution}

{description}

```
pip install packages/{folder}    # in a clone of elmox
```

```python
{use}
```
{card}"""
_LICENSE = (
    "The files of this package are licensed under {license}: https://spdx.org/licenses/{license}\n"
)
_TAGGERS_APART = Argument("taggers_apart", True)
_LOAD = 'from elmox import Elmo\n\nelmo = Elmo.from_pretrained("{name}")\n'


class _Kind(NamedTuple):
    """Texts of a part's project."""

    title: str
    group: str
    use: str


_KINDS = {
    "model": _Kind("An ELMo biLM", MODELS, f'{_LOAD}elmo.encode("I will buy you a present.")'),
    "softmax": _Kind(
        "The softmax of an ELMo biLM", SOFTMAXES, f'{_LOAD}elmo.predict("I buy ___.")'
    ),
    "taggers": _Kind(
        "Taggers that read an ELMo biLM",
        TAGGERS,
        'from elmox import TaskPredictor\n\nTaskPredictor.from_pretrained("{name}/pos")',
    ),
}


@dataclass(frozen=True)
class ProjectOptions:
    """Options of `write_projects`.

    Attributes:
        name: of the model; None for that of its directory.
        version: of the distributions.
        license: SPDX identifier; None for that of the model's card, or elmox's.
        license_file: its text; None for a reference to it.
        softmax: whether to write the package of the softmax.
        taggers: directories of taggers by name, as `elmox.tasks.ready.store_tagger` writes them.
        taggers_apart: whether the taggers are a package of their own, `NAME-taggers`.
        force: replace existing projects.
    """

    name: str | None = None
    version: str = "1.0.0"
    license: str | None = None
    license_file: Path | None = None
    softmax: bool = True
    taggers: Mapping[str, Path] = field(default_factory=dict)
    taggers_apart: bool = False
    force: bool = False


def write_projects(folder: Path, out: Path, options: ProjectOptions) -> list[Path]:
    """Write the projects of a model, its softmax and its taggers, with files as they are stored.

    Args:
        folder: a model directory; everything in it is included except hidden files.
        out: the directory of all packages: the projects are `out/NAME`, `out/NAME-softmax` if the
            model has one, and `out/NAME-taggers` if they are a package of their own.
        options: see `ProjectOptions`.

    Returns:
        The directories of the projects.
    """
    name = _checked_name(options.name or folder.resolve().name)
    if not _VERSION.fullmatch(options.version):
        raise ArgumentError(
            "{}: expected numbers such as 1.0.0", Argument("version", options.version)
        )
    if not is_model_directory(folder):
        raise ElmoxError(f"{folder} is not a model directory: make one with Elmo.save_pretrained")
    checkpoint = read_directory(folder)
    build_bilm(checkpoint, str(folder))  # checks every array
    build_indexer(checkpoint, str(folder))
    has_softmax = options.softmax and build_softmax(checkpoint) is not None
    digest = checkpoint_digest(checkpoint, with_state=False)
    parts = ["model", *["softmax"] * has_softmax, *["taggers"] * options.taggers_apart]
    if options.taggers_apart and not _taggers(folder, options.taggers):
        raise ArgumentError("{} has no taggers: leave out {}", folder, _TAGGERS_APART)
    paths = [out / _project_name(name, part) for part in parts]
    for path in paths:
        refuse_existing(path, options.force)
        if path.is_dir() and any(path.iterdir()) and not (path / "pyproject.toml").is_file():
            raise ElmoxError(f"{path} holds other things than a package: choose another name")
    out.mkdir(parents=True, exist_ok=True)
    for part, path in zip(parts, paths, strict=True):
        eight_bit = "softmax" in read_json(folder / CONFIG_FILE).get("storage", {})
        facts = PackageFacts(
            PACKAGE_FORMAT,
            name,
            part,
            elmox_version(),  # older ones may not read everything that this one writes
            digest,
            eight_bit=part == "softmax" and eight_bit,
            softmax=distribution_of(f"{name}-softmax") if has_softmax else None,
        )
        with atomic_directory(path) as new:
            _write_project(new, folder, facts, options)
    return paths


def build_wheel(project: Path, out: Path) -> Path:
    """Build a project's wheel with hatchling, which needs no network, and return its path."""
    if find_spec("hatchling") is None:
        raise ElmoxError(
            "a wheel is built by hatchling, which is not installed: pip install hatchling"
        )
    before = set(out.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out.resolve())]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ElmoxError(f"hatchling could not build the wheel of {project}: {lines[-1]}")
    made = max(out.glob("*.whl"), key=lambda path: (path not in before, path.stat().st_mtime_ns))
    return made


def _checked_name(name: str) -> str:
    if not is_model_name(name):
        raise ArgumentError(
            "{}: expected lowercase letters, digits and single hyphens, such as english-original",
            Argument("name", name),
        )
    if name == BUNDLED or name.endswith(("-softmax", "-taggers")):
        raise ArgumentError(
            "{} is the name of {}: choose another",
            Argument("name", name),
            "the model that comes with elmox" if name == BUNDLED else "a part of another package",
        )
    return name


def _write_project(new: Path, folder: Path, facts: PackageFacts, options: ProjectOptions) -> None:
    """Fill the directory of one project."""
    folder_name = _project_name(facts.name, facts.part)
    distribution = distribution_of(folder_name)
    module = distribution.replace("-", "_")
    card = (folder / "README.md").read_text("utf-8") if (folder / "README.md").is_file() else ""
    license = options.license or card_license(card) or "Apache-2.0"
    files = new / "src" / module / MODEL_FOLDER
    files.mkdir(parents=True)
    for path in sorted(folder.iterdir()):
        part = "softmax" if path.name in (SOFTMAX_FILE, VOCAB_FILE) else "model"
        is_shared = path.name == CHECKSUMS_FILE and facts.part != "taggers"
        if path.is_file() and not path.name.startswith(".") and (part == facts.part or is_shared):
            shutil.copyfile(path, files / path.name)
    if facts.part == ("taggers" if options.taggers_apart else "model"):
        for name, path in _taggers(folder, options.taggers).items():
            shutil.copytree(path, files / TAGGERS_FOLDER / name)
    (files.parent / PACKAGE_FILE).write_bytes(to_json(asdict(facts)))
    (files.parent / "__init__.py").write_text(f'"""Files of {facts.name}, a model for elmox."""\n')
    kind = _KINDS[facts.part]
    description = f"{kind.title} for elmox: {facts.name}"
    elmox = f"elmox>={elmox_version()}"
    model = f"{distribution_of(facts.name)}=={options.version}"
    values: dict[str, object] = {
        "distribution": distribution,
        "version": options.version,
        "description": description,
        "license": license,
        "dependencies": [elmox] if facts.part == "model" else [elmox, model],
        "group": kind.group,
        "name": facts.name,
        "module": module,
        "source": f"src/{module}",
    }
    toml = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    (new / "pyproject.toml").write_text(_PYPROJECT.format(**toml), encoding="utf-8")
    readme = _README.format(
        distribution=distribution, description=f"{description}.", folder=folder_name,
        use=kind.use.format(name=facts.name),
        card=f"\n{card_body(card)}" if facts.part == "model" else "",
    )  # fmt: skip
    (new / "README.md").write_text(readme, encoding="utf-8")
    if options.license_file is None:
        (new / "LICENSE").write_text(_LICENSE.format(license=license), encoding="utf-8")
    else:
        shutil.copyfile(options.license_file, new / "LICENSE")


def _taggers(folder: Path, more: Mapping[str, Path]) -> dict[str, Path]:
    """Return the taggers of a model's directory, and those that are given, by name."""
    stored = folder / TAGGERS_FOLDER
    inside = {path.name: path for path in stored.iterdir()} if stored.is_dir() else {}
    return {**inside, **more}


def _project_name(name: str, part: str) -> str:
    return name if part == "model" else f"{name}-{part}"
