"""Loading of a SentenceTransformer that begins with ELMo.

`SentenceTransformer(path)` refuses classes of other packages unless `trust_remote_code=True`, which
would also run code that lies in the directory. Here the classes are elmox's and those of
sentence-transformers, and no others.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmox.errors import ElmoxError, shortened
from elmox.integrations.packages import importing
from elmox.io.files import read_json, read_json_value
from elmox.pretrained.hub import Token

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MODULES_FILE = "modules.json"
CONFIG_FILE = "config_sentence_transformers.json"
_ELMO = "elmox.integrations.sentence_transformers.Elmo"
_LIBRARY = "sentence_transformers."
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")


def load_sentence_transformer(
    path: str | Path,
    *,
    device: str | None = None,
    revision: str | None = None,
    token: Token = None,
    **options: Any,
) -> "SentenceTransformer":
    """Load a sentence encoder that `SentenceTransformer.save_pretrained` wrote.

    Args:
        path: its directory, or its id on the Hugging Face hub.
        device: "cpu", "cuda", ...; a GPU if there is one by default.
        revision: branch, tag or commit of a hub id.
        token: access token for a hub id; True for the stored one.
        **options: other options of `SentenceTransformer`, such as `prompts`; they replace those
            that are stored.
    """
    with importing("sentence-transformers", "sentence-transformers", "sentence_transformers"):
        from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import load_file_path

    source: dict[str, Any] = {"token": token, "revision": revision}
    modules_file = load_file_path(str(path), MODULES_FILE, **source)
    if modules_file is None:
        raise ElmoxError(f"{path} has no {MODULES_FILE}: expected a saved SentenceTransformer")
    modules = []
    for entry in _entries(Path(modules_file)):
        module = _module_class(entry["type"], str(path))
        modules.append(module.load(str(path), subfolder=entry["path"], **source))
    stored = load_file_path(str(path), CONFIG_FILE, **source)
    settings = {} if stored is None else read_json(Path(stored))
    kept = {name: settings[name] for name in _SETTINGS if settings.get(name) is not None}
    return SentenceTransformer(modules=modules, device=device, **kept | options)


def _entries(path: Path) -> list[dict[str, str]]:
    """Read the list of modules and check what is used of it."""
    entries = read_json_value(path)
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict)
        and isinstance(entry.get("type"), str)
        and isinstance(folder := entry.get("path"), str)
        and not Path(folder).is_absolute()
        and ".." not in Path(folder).parts
        for entry in entries
    ):
        raise ElmoxError(f"{path}: expected a list of modules, each with a type and a path inside")
    return entries


def _module_class(name: str, path: str) -> Any:
    """Return the class of a module, if it is elmox's or that of sentence-transformers."""
    home, _, attribute = name.rpartition(".")
    if name != _ELMO and not name.startswith(_LIBRARY):
        raise ElmoxError(
            f"{path} has a module of the class {shortened(name)}, which is neither that of elmox "
            "nor of sentence-transformers: load it with SentenceTransformer if you trust it"
        )
    from sentence_transformers.base.modules import Module

    try:
        module = getattr(import_module(home), attribute)
    except (ImportError, AttributeError) as error:
        raise ElmoxError(f"{path}: {name} is not in the installed package: upgrade it") from error
    if not (isinstance(module, type) and issubclass(module, Module)):
        raise ElmoxError(f"{path}: {name} is not a module of a SentenceTransformer")
    return module
