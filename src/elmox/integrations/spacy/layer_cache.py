"""A memory of encoded sentences, so that the epochs of a training run encode each of them once."""

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray


class LayerCache:
    """Layers by sentence, up to a number of bytes; what was not used for longest goes first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.num_bytes = max_bytes, 0
        self._layers: OrderedDict[Hashable, NDArray[np.float32]] = OrderedDict()

    def get(self, key: Hashable) -> NDArray[np.float32] | None:
        """Return the layers of a sentence, None if they are not here."""
        layers = self._layers.get(key)
        if layers is not None:
            self._layers.move_to_end(key)
        return layers

    def put(self, key: Hashable, layers: NDArray[np.float32]) -> None:
        """Keep the layers of a new sentence."""
        self._layers[key] = layers.copy()  # it may be a view that keeps a whole batch in memory
        self.num_bytes += layers.nbytes
        while self.num_bytes > self.max_bytes:
            _, oldest = self._layers.popitem(last=False)
            self.num_bytes -= oldest.nbytes

    def __getstate__(self) -> dict[str, object]:  # a worker starts with an empty one
        return {"max_bytes": self.max_bytes, "num_bytes": 0, "_layers": OrderedDict()}
