"""The biLM of spaCy components: loaded when it is first used, and shared by all of a process."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from elmox.config import BUNDLED
from elmox.errors import Argument, ArgumentError
from elmox.integrations.spacy.workers import ThreadLimit

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
        self._digest: str | None = None
        self._threads = ThreadLimit()

    @property
    def elmo(self) -> "Elmo":
        """The model, ready to compute in this process."""
        self._threads.apply()
        if self._elmo is None:
            self._elmo = _load(self.model, self.device or spacy_device(), self.dtype)
            self._digest = None
        return self._elmo

    def digest(self) -> str:
        """Return a digest of everything that vectors depend on."""
        elmo = self.elmo
        if self._digest is None:
            self._digest = elmo.digest()
        return self._digest

    def require(self, digest: str) -> None:
        """Refuse another biLM than that of a stored pipeline."""
        if self.digest() != digest:
            raise ArgumentError(
                "the pipeline was saved with another biLM than {}: give the one it was saved "
                "with as {}",
                self.model,
                Argument("model"),
            )

    def save(self, path: Path) -> None:
        """Write a model directory without the softmax, which vectors do not need."""
        from elmox.pretrained.native import write_directory

        write_directory(replace(self.elmo.checkpoint(), softmax=None), path, force=True)

    def load(self, path: Path) -> None:
        """Use the model in this directory, which nothing else shares and which may be removed."""
        from elmox.elmo import Elmo

        self._elmo = Elmo.from_pretrained(
            path, device=self.device or spacy_device(), dtype=self.dtype
        )
        self._digest = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_elmo": None}

    def __repr__(self) -> str:
        return f"Bilm({self.model!r}, device={self.device!r}, dtype={self.dtype!r})"


def spacy_device() -> str:
    """Return the device that spaCy computes on: a GPU after `spacy.prefer_gpu()`, else the CPU."""
    from thinc.api import get_torch_default_device

    device = get_torch_default_device()
    return str(device) if device.type == "cuda" else "cpu"


def _load(model: str, device: str, dtype: str) -> "Elmo":
    from elmox.elmo import Elmo

    elmo = _shared.get((model, device, dtype))
    if elmo is None:
        elmo = Elmo.from_pretrained(model, device=device, dtype=dtype)
        _shared[model, device, dtype] = elmo
    return elmo
