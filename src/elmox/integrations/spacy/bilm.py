"""The biLM of spaCy components: loaded when it is first used, and shared by all of a process."""

import multiprocessing
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from elmox.config import BUNDLED

if TYPE_CHECKING:
    from elmox.elmo import Elmo

_shared: "WeakValueDictionary[tuple[str, str, str], Elmo]" = WeakValueDictionary()


class Bilm:
    """A biLM by its path or name. Pickling leaves the weights out: a worker loads its own.

    Attributes:
        model: a path or a name, as `Elmo.from_pretrained` takes it.
        device: "cpu", "cuda", ...; None for the device that spaCy uses.
        dtype: the precision of the computation.
    """

    def __init__(
        self, model: str | None = None, device: str | None = None, dtype: str = "float32"
    ) -> None:
        self.model = BUNDLED if model is None else model
        self.device, self.dtype = device, dtype
        self._elmo: Elmo | None = None
        self._process = os.getpid()

    @property
    def elmo(self) -> "Elmo":
        """The model, ready to compute in this process."""
        limit_threads(self._process)
        if self._elmo is None:
            self._elmo = _load(self.model, self.device or spacy_device(), self.dtype)
        return self._elmo

    @elmo.setter
    def elmo(self, elmo: "Elmo") -> None:
        self._elmo = elmo

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_elmo": None}

    def __repr__(self) -> str:
        return f"Bilm({self.model!r}, device={self.device!r}, dtype={self.dtype!r})"


def limit_threads(process: int) -> None:
    """Use one thread in a worker process.

    The threads of GNU OpenMP do not survive a fork: a forked worker that wants several waits for
    them forever. A spawned worker shares its cores with the other workers.

    Args:
        process: the process in which the caller was made.
    """
    import torch

    is_worker = process != os.getpid() or multiprocessing.parent_process() is not None
    if is_worker and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


def spacy_device() -> str:
    """Return the device that spaCy computes on: a GPU after `spacy.prefer_gpu()`, else the CPU."""
    from thinc.api import get_torch_default_device

    device = get_torch_default_device()
    return str(device) if device.type == "cuda" else "cpu"


def _load(model: str, device: str, dtype: str) -> "Elmo":
    from elmox.elmo import Elmo

    elmo = _shared.get((model, device, dtype))
    if elmo is None:
        elmo = _shared[model, device, dtype] = Elmo.from_pretrained(
            model, device=device, dtype=dtype
        )
    return elmo
