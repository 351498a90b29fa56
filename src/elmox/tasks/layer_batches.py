"""ELMo's layers of a data set, batch by batch.

A batch's layers are by far the most that an update reads, and a fit reads every sentence once an
epoch. On a GPU that has room they are all kept in its memory, and a batch is looked up there;
elsewhere it is put together from what lies on disk.

Shapes: S sentences of the data set, N of a batch, T words, L+1 layers of D numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.model.transfer import to_device

GPU_SHARE = 0.25  # of a GPU's free memory that a data set's layers may take
_WORDS_AT_ONCE = 2**16  # that are read from disk and sent to a GPU together


class StoredLayers(Protocol):
    """ELMo's layers of sentences, by their place."""

    def __getitem__(self, index: int) -> NDArray[np.floating]:
        """(L+1, T, D)."""
        ...


class LayerBatches:
    """Layers of some of a data set's sentences side by side.

    Args:
        layers: of all its sentences.
        lengths: (S,) their words.
    """

    def __init__(self, layers: StoredLayers, lengths: NDArray[np.int64]) -> None:
        self._layers, self._lengths = layers, lengths
        self._tables: dict[torch.device, LayerTable | None] = {}

    def batch(self, chosen: Sequence[int], mask: NDArray[np.bool_], device: torch.device) -> Tensor:
        """(L+1, N, T, D) float32, zero at padding.

        Args:
            chosen: places of the sentences.
            mask: (N, T) true where one of them has a word.
            device: where they are wanted.
        """
        if device not in self._tables:
            self._tables[device] = self._table(device)
        table = self._tables[device]
        if table is None:
            return to_device(self._padded(chosen, mask), device)
        return table.batch(chosen, mask)

    def _table(self, device: torch.device) -> "LayerTable | None":
        if device.type != "cuda":
            return None
        first = self._layers[0]
        size = int(self._lengths.sum()) * first.shape[0] * first.shape[2] * first.itemsize
        free, _ = torch.cuda.mem_get_info(device)
        if size > GPU_SHARE * free:
            return None
        return LayerTable(self._layers, self._lengths, device)

    def _padded(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        own = [self._layers[i] for i in chosen]
        padded = np.zeros((own[0].shape[0], *mask.shape, own[0].shape[2]), np.float32)
        for row, found in enumerate(own):
            padded[:, row, : found.shape[1]] = found
        return padded


class LayerTable:
    """The words of all sentences, one after the other, in the precision that they are kept in.

    Args:
        layers: of the sentences.
        lengths: (S,) their words.
        device: where the table is to lie.
    """

    def __init__(
        self, layers: StoredLayers, lengths: NDArray[np.int64], device: torch.device
    ) -> None:
        self._starts = np.cumsum(lengths) - lengths + 1  # row 0 is that of padding
        first = layers[0]
        self._num_layers, self._dim = first.shape[0], first.shape[2]
        dtype = torch.from_numpy(np.empty(0, first.dtype)).dtype
        width = self._num_layers * self._dim
        self._table = torch.zeros(1 + int(lengths.sum()), width, dtype=dtype, device=device)
        for start, words in _blocks(layers, lengths):
            self._table[start : start + len(words)] = torch.from_numpy(words).flatten(1)

    def batch(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> Tensor:
        """As `LayerBatches` has it."""
        rows = (self._starts[list(chosen), None] + np.arange(mask.shape[1])) * mask
        found = F.embedding(to_device(rows, self._table.device), self._table)
        by_layer = found.view(*mask.shape, self._num_layers, self._dim).permute(2, 0, 1, 3)
        return by_layer.new_empty(by_layer.shape, dtype=torch.float32).copy_(by_layer)


def _blocks(
    layers: StoredLayers, lengths: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Rows of the table, many at a time: the first one's place, and (words, L+1, D)."""
    ends = np.cumsum(lengths)
    start = 0  # sentences that have been read
    while start < len(lengths):
        done = int(ends[start] - lengths[start])
        stop = max(start + 1, int(np.searchsorted(ends, done + _WORDS_AT_ONCE, side="right")))
        own = [np.asarray(layers[i]).swapaxes(0, 1) for i in range(start, stop)]
        yield 1 + done, np.concatenate(own)
        start = stop
