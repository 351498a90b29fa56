"""Models and vectors that all estimators of a process share.

scikit-learn copies estimators all the time: for each fold, each point of a grid, each worker. So an
estimator only names its model. The model is loaded once per process, and the vectors of a text are
computed once, whichever copy asks first.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from threading import RLock
from typing import TypeAlias

import torch

from elmox.config import BUNDLED
from elmox.elmo import Elmo
from elmox.inference.outputs import FloatArray
from elmox.pretrained.native import WEIGHTS_FILE

MAX_MODELS = 2  # held per process; the one that was used last stays longest

Key: TypeAlias = Hashable
File: TypeAlias = tuple[int, int, int] | None


class SharedModel:
    """A model, and vectors that it has computed.

    Attributes:
        elmo: the model, whose weights must not be changed.
        lock: held while vectors are computed, so that two threads do not compute the same ones.
    """

    def __init__(self, elmo: Elmo) -> None:
        self.elmo = elmo
        self.lock = RLock()
        self.num_bytes = 0
        self._vectors: OrderedDict[Key, FloatArray] = OrderedDict()

    def vectors(
        self,
        keys: Sequence[Key],
        compute: Callable[[list[int]], Iterable[FloatArray]],
        max_bytes: int,
    ) -> list[FloatArray]:
        """Return vectors by their keys; equal keys are computed once.

        Args:
            keys: everything that the vectors depend on besides the model.
            compute: returns the vectors of the keys with these indexes.
            max_bytes: bytes of vectors to keep for later calls; those that were not used for the
                longest time are discarded.
        """
        with self.lock:
            first = {key: index for index, key in reversed(list(enumerate(keys)))}
            result = {key: self._vectors[key] for key in first if key in self._vectors}
            for key in result:
                self._vectors.move_to_end(key)
            missing = sorted(index for key, index in first.items() if key not in result)
            if missing:
                for index, vectors in zip(missing, compute(missing), strict=True):
                    result[keys[index]] = self._vectors[keys[index]] = vectors
                    self.num_bytes += vectors.nbytes
            while self.num_bytes > max_bytes:
                self.num_bytes -= self._vectors.popitem(last=False)[1].nbytes
        return [result[key] for key in keys]


class SharedModels:
    """The models of this process."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._models: OrderedDict[Key, SharedModel] = OrderedDict()

    def get(
        self, path: str | Path | None, device: str | torch.device | None, dtype: str
    ) -> SharedModel:
        """Return a model, loaded if it is new or if its file has changed."""
        name = BUNDLED if path is None else str(path)
        key = (name, str(device), str(dtype), _file(Path(name)))
        with self._lock:
            if key not in self._models:
                elmo = Elmo.from_pretrained(path, device=device, dtype=dtype)
                self._models[key] = SharedModel(elmo)
            self._models.move_to_end(key)
            while len(self._models) > MAX_MODELS:
                self._models.popitem(last=False)
            return self._models[key]

    def clear(self) -> None:
        """Discard all models and vectors, to free their memory."""
        with self._lock:
            self._models.clear()


@cache
def shared_models() -> SharedModels:
    """Return the models of this process."""
    return SharedModels()


def _file(path: Path) -> File:
    """Return what changes if a file is replaced; None for a model without a local file."""
    weights = path / WEIGHTS_FILE if path.is_dir() else path
    try:
        stat = weights.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
