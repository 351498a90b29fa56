"""Models that are installed as Python packages, found by their names.

A package declares an entry point, `NAME = "its_module"`, in the group `elmox.models`. Its softmax
and its ready taggers may be packages of their own, in the groups `elmox.softmaxes` and
`elmox.taggers`. Packages hold files and are never imported:

its_module/package.json    name, part, format, the least version of elmox, digest of the biLM
its_module/model/          a model directory; in the other packages only their part of it

`elmox package` writes such packages (`project.py`). The English model that comes with elmox is
found here too, although it is not a package of its own.
"""

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path

from elmox.config import BUNDLED, Strict, validated
from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.pretrained.native import TAGGERS_FOLDER, VOCAB_FILE, is_model_directory

MODELS = "elmox.models"
SOFTMAXES = "elmox.softmaxes"
TAGGERS = "elmox.taggers"
PACKAGE_FILE = "package.json"
MODEL_FOLDER = "model"
PACKAGE_FORMAT = 1

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True)
class PackageFacts(Strict):
    """The content of `package.json`.

    Attributes:
        format: of the package.
        name: of the model, as `Elmo.from_pretrained` takes it.
        part: "model", "softmax" or "taggers".
        requires: the least version of elmox that can read it.
        digest: of the biLM, which connects the parts of a model.
        eight_bit: whether a softmax is stored in 8 bits; a model's config.json declares its own.
        softmax: the distribution that contains the model's softmax, if there is one.
    """

    format: int
    name: str
    part: str
    requires: str
    digest: str
    eight_bit: bool = False
    softmax: str | None = None


def elmox_version() -> str:
    """Return the version of elmox, whose module also has the names of the layers above this one."""
    return str(import_module("elmox").__version__)


def is_model_name(name: str) -> bool:
    """Return whether a package may have this name: `english-original`."""
    return _NAME.fullmatch(name) is not None


def distribution_of(name: str) -> str:
    """Return the name that pip installs: `elmox-english-original`."""
    return f"elmox-{name}"


def install_command(distribution: str) -> str:
    """Return the commands that install a package: from a clone, and from an index."""
    folder = distribution.removeprefix("elmox-")
    return f"pip install packages/{folder} (in a clone of elmox) or pip install {distribution}"


def installed_names() -> list[str]:
    """Return the names of all models that need no path, the bundled one first."""
    names = {entry.name for entry in entry_points(group=MODELS)}
    return [BUNDLED, *sorted(names - {BUNDLED})]


def installed_model(name: str) -> Path | None:
    """Return the directory of the model of that name; None if there is none."""
    if name == BUNDLED:
        return bundled_model()
    located = _package(MODELS, name)
    if located is None:
        return None
    folder, facts = located
    if facts.part != "model" or not is_model_directory(folder / MODEL_FOLDER):
        raise ElmoxError(f"{folder} is not a model's package: install it again")
    return folder / MODEL_FOLDER


def package_of(folder: Path) -> PackageFacts | None:
    """Return the facts of the package that a model directory is part of; None without one."""
    if folder.name != MODEL_FOLDER or not (folder.parent / PACKAGE_FILE).is_file():
        return None
    facts = _read_facts(folder.parent)
    return facts if facts.part == "model" else None


def softmax_of(package: PackageFacts) -> tuple[Path, bool] | None:
    """Return the folder of the softmax of a model's package, and whether it is in 8 bits.

    None if its package is not installed.
    """
    if package.softmax is None:
        return None
    located = _part(SOFTMAXES, "softmax", package)
    if located is None:
        return None
    folder, facts = located
    if not (folder / VOCAB_FILE).is_file():
        raise ElmoxError(f"{folder} lacks {VOCAB_FILE}: install {package.softmax} again")
    return folder, facts.eight_bit


def taggers_of(model: Path) -> list[Path]:
    """Return the folders of the ready taggers of a model directory, from both of its packages."""
    folders = [model / TAGGERS_FOLDER]
    package = package_of(model)
    located = None if package is None else _part(TAGGERS, "taggers", package)
    if located is not None:
        folders.append(located[0] / TAGGERS_FOLDER)
    return [folder for folder in folders if folder.is_dir()]


def _part(group: str, part: str, package: PackageFacts) -> tuple[Path, PackageFacts] | None:
    """Return the folder and the facts of another package of a model, if it is installed."""
    located = _package(group, package.name)
    if located is None:
        return None
    folder, facts = located
    if facts.part != part or not (folder / MODEL_FOLDER).is_dir():
        raise ElmoxError(f"{folder} is not the package of a model's {part}: install it again")
    if facts.digest != package.digest:
        model = distribution_of(package.name)
        raise ElmoxError(
            f"{folder} has the {part} of another {package.name} than the installed one: install "
            f"the versions of {model} and {model}-{part} that belong together"
        )
    return folder / MODEL_FOLDER, facts


def bundled_model() -> Path:
    """Return the directory of the model that comes with elmox."""
    folder = Path(str(files("elmox").joinpath("models", BUNDLED)))
    if not is_model_directory(folder):
        raise ElmoxError(
            f"{BUNDLED}, the model that comes with elmox, is not in {folder}: install elmox with "
            "pip, or give the path of another model"
        )
    return folder


def _package(group: str, name: str) -> tuple[Path, PackageFacts] | None:
    """Return the folder and the facts of the only package of a group that has this name."""
    entries = list(entry_points(group=group, name=name))
    if not entries:
        return None
    if len({_distribution_name(entry) for entry in entries}) > 1:
        names = ", ".join(sorted(_distribution_name(entry) for entry in entries))
        raise ElmoxError(
            f"{name} is in several installed packages ({names}): uninstall all but one"
        )
    folder = _folder(entries[0])
    facts = _read_facts(folder)
    if facts.name != name:
        raise ElmoxError(f"{folder} holds the model {facts.name!r}, not {name!r}: install it again")
    return folder, facts


def _distribution_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unnamed package"


def _folder(entry: EntryPoint) -> Path:
    """Return the folder of a package's files, without importing the package."""
    owner = f"{_distribution_name(entry)} (entry point {entry.name!r})"
    if not entry.value.isidentifier():
        raise ElmoxError(f"{owner} has no folder of files: expected the name of a module")
    for folder in _candidates(entry.dist, entry.value):
        if (folder / PACKAGE_FILE).is_file():
            return folder
    raise ElmoxError(f"{owner} lacks {entry.value}/{PACKAGE_FILE}: install it again")


def _candidates(distribution: Distribution | None, module: str) -> Iterable[Path]:
    """Yield the folders where a module may be; the second way finds editable installations."""
    if distribution is not None:
        yield Path(str(distribution.locate_file(module)))
    spec = importlib.util.find_spec(module)  # of a top-level module: imports nothing
    yield from map(Path, (spec and spec.submodule_search_locations) or ())


def _read_facts(folder: Path) -> PackageFacts:
    path = folder / PACKAGE_FILE
    values = read_json(path)
    number = values.get("format")
    if number != PACKAGE_FORMAT or number is True:
        raise ElmoxError(
            f"{path} has format {number!r}, this elmox ({elmox_version()}) reads {PACKAGE_FORMAT}: "
            "upgrade elmox"
        )
    facts = validated(PackageFacts, values, str(path))
    if _release(facts.requires) > _release(elmox_version()):
        raise ElmoxError(
            f"{facts.name} needs elmox {facts.requires} or newer, this is {elmox_version()}: "
            "upgrade elmox, or install an older version of the model's package"
        )
    return facts


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version: (0, 2) for 0.2.dev1 and 0.2.0."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    parts = [int(number) for number in numbers.group().split(".")] if numbers else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)
