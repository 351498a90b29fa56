"""Write a model as a Python project that pip installs: `packages/NAME` and `packages/NAME-softmax`.

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

from elmox.config import BUNDLED
from elmox.errors import Argument, ArgumentError, ElmoxError
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
from elmox import Elmo

elmo = Elmo.from_pretrained("{name}")
{use}
```
{card}"""
_LICENSE = (
    "The files of this package are licensed under {license}: https://spdx.org/licenses/{license}\n"
)


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
        force: replace existing projects.
    """

    name: str | None = None
    version: str = "1.0.0"
    license: str | None = None
    license_file: Path | None = None
    softmax: bool = True
    taggers: Mapping[str, Path] = field(default_factory=dict)
    force: bool = False


def write_projects(folder: Path, out: Path, options: ProjectOptions) -> list[Path]:
    """Write the projects of a model and of its softmax, with files as they are stored.

    Args:
        folder: a model directory; everything in it is included except hidden files.
        out: the directory of all packages: the projects are `out/NAME` and `out/NAME-softmax`.
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
    parts = ("model", "softmax") if has_softmax else ("model",)
    paths = [out / (name if part == "model" else f"{name}-softmax") for part in parts]
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
    if name == BUNDLED or name.endswith("-softmax"):
        raise ArgumentError(
            "{} is the name of {}: choose another",
            Argument("name", name),
            "the model that comes with elmox" if name == BUNDLED else "a softmax's package",
        )
    return name


def _write_project(new: Path, folder: Path, facts: PackageFacts, options: ProjectOptions) -> None:
    """Fill the directory of one project."""
    is_model = facts.part == "model"
    folder_name = facts.name if is_model else f"{facts.name}-softmax"
    distribution = distribution_of(folder_name)
    module = distribution.replace("-", "_")
    card = (folder / "README.md").read_text("utf-8") if (folder / "README.md").is_file() else ""
    license = options.license or card_license(card) or "Apache-2.0"
    files = new / "src" / module / MODEL_FOLDER
    files.mkdir(parents=True)
    softmax = {SOFTMAX_FILE, VOCAB_FILE}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and (path.name in softmax) != is_model:
            shutil.copyfile(path, files / path.name)
    if is_model:
        _copy_taggers(folder, files / TAGGERS_FOLDER, options.taggers)
    (files.parent / PACKAGE_FILE).write_bytes(to_json(asdict(facts)))
    (files.parent / "__init__.py").write_text(f'"""Files of {facts.name}, a model for elmox."""\n')
    kind = "An ELMo biLM" if is_model else "The softmax of an ELMo biLM"
    description = f"{kind} for elmox: {facts.name}"
    elmox = f"elmox>={elmox_version()}"
    model = f"{distribution_of(facts.name)}=={options.version}"
    values: dict[str, object] = {
        "distribution": distribution,
        "version": options.version,
        "description": description,
        "license": license,
        "dependencies": [elmox] if is_model else [elmox, model],
        "group": MODELS if is_model else SOFTMAXES,
        "name": facts.name,
        "module": module,
        "source": f"src/{module}",
    }
    toml = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
    (new / "pyproject.toml").write_text(_PYPROJECT.format(**toml), encoding="utf-8")
    use = 'elmo.encode("I will buy you a present.")' if is_model else 'elmo.predict("I buy a ___.")'
    readme = _README.format(
        distribution=distribution, description=f"{description}.", folder=folder_name,
        name=facts.name, use=use, card=f"\n{card_body(card)}" if is_model else "",
    )  # fmt: skip
    (new / "README.md").write_text(readme, encoding="utf-8")
    if options.license_file is None:
        (new / "LICENSE").write_text(_LICENSE.format(license=license), encoding="utf-8")
    else:
        shutil.copyfile(options.license_file, new / "LICENSE")


def _copy_taggers(folder: Path, out: Path, more: Mapping[str, Path]) -> None:
    """Copy the taggers of a model's directory, and those that are given."""
    stored = folder / TAGGERS_FOLDER
    inside = {path.name: path for path in stored.iterdir()} if stored.is_dir() else {}
    for name, path in {**inside, **more}.items():
        shutil.copytree(path, out / name)
