"""AllenNLP's own Elmo, loaded on current Python and PyTorch, to measure it next to elmox.

AllenNLP 2.10.1 can no longer be installed with its dependencies: it pins torch < 1.13, which was
never built for Python 3.11. Its own code still runs. So AllenNLP is used unchanged, and only the
other packages that it imports, none of which takes part in computing a vector, are replaced by
empty stand-ins while it loads. Calling a stand-in raises, so no result can depend on one.

    pip install --no-deps allennlp==2.10.1
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

# AllenNLP's real dependencies must be loaded before the stand-ins: torch imports dill if it can,
# and would get an empty one.
import h5py  # noqa: F401
import torch
import torch.utils.data
import tqdm  # noqa: F401

VERSION = "2.10.1"

# All that `import allennlp.modules` imports except torch, numpy, h5py and tqdm. They are replaced
# even if they are installed: a current release, such as huggingface_hub's, may lack a name that
# AllenNLP imports.
STAND_INS = frozenset(
    {
        "base58",
        "cached_path",
        "dill",
        "fairscale",
        "huggingface_hub",
        "lmdb",
        "more_itertools",
        "spacy",
        "torchvision",
        "transformers",
    }
)


def load_allennlp(
    site: Path | None = None,
) -> tuple[type[torch.nn.Module], Callable[[list[list[str]]], torch.Tensor]]:
    """Import AllenNLP's real `Elmo` and `batch_to_ids`.

    Only the `allennlp` modules remain loaded: the import path and all stand-ins are restored before
    this returns. Further calls return the same objects.

    Args:
        site: A directory to search first, such as an unpacked wheel or the target of
            `pip install --target`; None for Python's import path alone.

    Returns:
        The class, called as `Elmo(options_file, weight_file, num_output_representations, ...)` with
        paths of local files, and the function from sentences to (B, T, 50) character ids.

    Raises:
        ModuleNotFoundError: AllenNLP is not installed.
        ImportError: Another version is installed, for which the stand-ins were not chosen.
    """
    with _search_first(site), _stand_ins():
        _require_version(site)
        elmo = importlib.import_module("allennlp.modules.elmo")
    return elmo.Elmo, elmo.batch_to_ids


def _require_version(site: Path | None) -> None:
    """Raise unless an import would load the version that this file is written for."""
    remedy = f"pip install --no-deps allennlp=={VERSION}"
    try:
        version = metadata.version("allennlp")
    except metadata.PackageNotFoundError:
        where = f" in {site}" if site else ""
        raise ModuleNotFoundError(f"allennlp is not installed{where}: {remedy}") from None
    if version != VERSION:
        raise ImportError(f"allennlp {version} is installed, expected {VERSION}: {remedy}")


@contextmanager
def _search_first(site: Path | None) -> Iterator[None]:
    """Put `site` at the front of the import path inside."""
    before = list(sys.path)
    if site is not None:
        sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Import empty modules for `STAND_INS` inside; restore the real ones at the end."""
    finder = _StandInFinder()
    real = _remove_stand_in_names()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _remove_stand_in_names()
        sys.modules.update(real)


def _remove_stand_in_names() -> dict[str, ModuleType]:
    """Remove the modules of `STAND_INS` from `sys.modules` and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] in STAND_INS]
    return {name: sys.modules.pop(name) for name in names}


def _local_path(path: str | Path, **_options: object) -> str:
    """Return a local path unchanged, as `cached_path.cached_path` does."""
    return str(path)


class _StandInModule(ModuleType):
    """An empty module with every name: each is a class, so that it can be inherited from."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            raise RuntimeError(f"AllenNLP called {self.__name__}.{name}, which is a stand-in here")

        stand_in = type(name, (), {"__new__": refuse})
        setattr(self, name, stand_in)
        return stand_in


class _StandInFinder(MetaPathFinder, Loader):
    """A finder that loads every module of `STAND_INS` as a `_StandInModule`."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in STAND_INS:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "cached_path":
            module.cached_path = _local_path  # type: ignore[attr-defined]


class AllenNlp:
    """AllenNLP's module on some weights, called as its documentation shows."""

    def __init__(self, weights: Path, options: Path, device: torch.device) -> None:
        elmo_class, self._to_ids = load_allennlp()
        self._elmo: Any = elmo_class(str(options), str(weights), 1, dropout=0.0).eval().to(device)
        self._device = device

    def run(self, batches: Sequence[list[list[str]]]) -> None:
        """Embed batches of sentences and copy the average of the layers to main memory."""
        with torch.no_grad():
            for batch in batches:
                outputs = self._elmo(self._to_ids(batch).to(self._device))
                outputs["elmo_representations"][0].cpu()

    def fresh(self, batch: list[list[str]]) -> list[Any]:
        """Return the vectors of one batch from a zero state, for comparison."""
        self._elmo._elmo_lstm._elmo_lstm.reset_states()
        with torch.no_grad():
            outputs = self._elmo(self._to_ids(batch).to(self._device))
        vectors = outputs["elmo_representations"][0].cpu().numpy()
        return [rows[: len(tokens)] for rows, tokens in zip(vectors, batch, strict=True)]
