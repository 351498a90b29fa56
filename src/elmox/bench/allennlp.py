"""AllenNLP's own Elmo, loaded on today's Python and PyTorch, to be measured beside elmox.

AllenNLP 2.10.1 cannot be installed with its dependencies any more: it pins torch < 1.13, which was
never built for Python 3.11. Its own code still runs. So AllenNLP is taken whole and unchanged, and
only the other packages that it imports on the way, none of which takes part in computing a vector,
are replaced by empty stand-ins while it loads. Calling a stand-in raises, so a result that depended
on one cannot go unnoticed.

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

# AllenNLP's real dependencies, h5py and tqdm with them, must be in memory before the stand-ins are:
# torch asks for dill while it loads and would be handed an empty one.
import h5py  # noqa: F401
import torch
import torch.utils.data
import tqdm  # noqa: F401

VERSION = "2.10.1"

# Everything that `import allennlp.modules` reaches for beside torch, numpy, h5py and tqdm. They are
# replaced even where they are installed: a present release, as of huggingface_hub, may lack a name
# that it imports.
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
    """Imports AllenNLP's `Elmo` and `batch_to_ids`, both the real ones.

    Beside the `allennlp` modules nothing stays behind: the import path and every stand-in are taken
    back before this returns. Called again, it returns the same objects.

    Args:
        site: A directory to look in first, such as one that a wheel was unpacked in or that
            `pip install --target` filled; None looks where Python always looks.

    Returns:
        The class, called as `Elmo(options_file, weight_file, num_output_representations, ...)` with
        paths of local files, and the function from sentences to (B, T, 50) character ids.

    Raises:
        ModuleNotFoundError: AllenNLP is not there.
        ImportError: It is there in another version, for which the stand-ins were not chosen.
    """
    with _search_first(site), _stand_ins():
        _require_version(site)
        elmo = importlib.import_module("allennlp.modules.elmo")
    return elmo.Elmo, elmo.batch_to_ids


def _require_version(site: Path | None) -> None:
    """Raises unless an import would find the AllenNLP that this file is written for."""
    remedy = f"pip install --no-deps allennlp=={VERSION}"
    try:
        found = metadata.version("allennlp")
    except metadata.PackageNotFoundError:
        where = f" in {site}" if site else ""
        raise ModuleNotFoundError(f"allennlp was not found{where}: {remedy}") from None
    if found != VERSION:
        raise ImportError(f"found allennlp {found}, expected {VERSION}: {remedy}")


@contextmanager
def _search_first(site: Path | None) -> Iterator[None]:
    """Puts `site` at the front of the import path for a while."""
    before = list(sys.path)
    if site is not None:
        sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Answers imports of `STAND_INS` with empty modules; gives the real ones back at the end."""
    finder = _StandInFinder()
    real = _forget_stand_in_names()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget_stand_in_names()
        sys.modules.update(real)


def _forget_stand_in_names() -> dict[str, ModuleType]:
    """Takes the modules that belong to `STAND_INS` out of `sys.modules` and returns them."""
    names = [name for name in sys.modules if name.partition(".")[0] in STAND_INS]
    return {name: sys.modules.pop(name) for name in names}


def _local_path(path: str | Path, **_options: object) -> str:
    """What `cached_path.cached_path` does to a local file: nothing."""
    return str(path)


class _StandInModule(ModuleType):
    """An empty module that has every name: each is a class, so that it can be inherited from."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_args: object, **_kwargs: object) -> NoReturn:
            raise RuntimeError(f"AllenNLP called {self.__name__}.{name}, which is a stand-in here")

        stand_in = type(name, (), {"__new__": refuse})
        setattr(self, name, stand_in)
        return stand_in


class _StandInFinder(MetaPathFinder, Loader):
    """Finds every package of `STAND_INS`, and every module in one, as a `_StandInModule`."""

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
    """AllenNLP's module on some weights, used as its users used it."""

    def __init__(self, weights: Path, options: Path, device: torch.device) -> None:
        elmo_class, self._to_ids = load_allennlp()
        self._elmo: Any = elmo_class(str(options), str(weights), 1, dropout=0.0).eval().to(device)
        self._device = device

    def run(self, batches: Sequence[list[list[str]]]) -> None:
        """Embed batches of sentences, to the average of the layers in main memory."""
        with torch.no_grad():
            for batch in batches:
                found = self._elmo(self._to_ids(batch).to(self._device))
                found["elmo_representations"][0].cpu()

    def fresh(self, batch: list[list[str]]) -> list[Any]:
        """The vectors of one batch from a fresh state, for comparison."""
        self._elmo._elmo_lstm._elmo_lstm.reset_states()
        with torch.no_grad():
            found = self._elmo(self._to_ids(batch).to(self._device))
        vectors = found["elmo_representations"][0].cpu().numpy()
        return [own[: len(tokens)] for own, tokens in zip(vectors, batch, strict=True)]
