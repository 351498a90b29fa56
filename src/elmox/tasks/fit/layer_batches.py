"""ELMo's layers of a data set, batch by batch.

A batch's layers are by far the largest input of an update, and a fit reads every sentence once per
epoch. If a GPU has room for all of them, they are kept in its memory, and a batch is looked up
there; otherwise it is read from disk.

Shapes: S sentences of the data set, N of a batch, T words, L+1 layers of D numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.io.transfer import to_device

GPU_SHARE = 0.25  # of a GPU's free memory that a data set's layers may take
_WORDS_AT_ONCE = 2**16  # that are read from disk and copied to a GPU together


class StoredLayers(Protocol):
    """ELMo's layers of sentences, by index."""

    def __getitem__(self, index: int) -> NDArray[np.floating]:
        """(L+1, T, D)."""
        ...


class LayerBatches:
    """Layers of some of a data set's sentences side by side.

    Args:
        layers: of all its sentences.
        lengths: (S,) words of each sentence.
        used: indices of the sentences that batches may contain; None for all.
    """

    def __init__(
        self,
        layers: StoredLayers,
        lengths: NDArray[np.int64],
        used: NDArray[np.int64] | None = None,
    ) -> None:
        self._layers, self._lengths = layers, lengths
        self._used = np.arange(len(lengths)) if used is None else used
        self._tables: dict[torch.device, LayerTable | None] = {}

    def batch(self, chosen: Sequence[int], mask: NDArray[np.bool_], device: torch.device) -> Tensor:
        """Return (L+1, N, T, D) float32, zero at padding.

        Args:
            chosen: indices of the sentences.
            mask: (N, T) true for words.
            device: of the result.
        """
        table = self.table(device)
        if table is None:
            return to_device(self._padded(chosen, mask), device).float()
        return table.batch(chosen, mask)

    def table(self, device: torch.device) -> "LayerTable | None":
        """Return the table on a GPU; None for other devices, and if there is no room."""
        if device not in self._tables:
            has_room = device.type == "cuda" and self._size() <= GPU_SHARE * _free(device)
            self._tables[device] = self._made(device) if has_room else None
        return self._tables[device]

    def _size(self) -> int:
        first = self._layers[0]
        width: int = first.shape[0] * first.shape[2] * first.itemsize
        return width * int(self._lengths[self._used].sum())

    def _made(self, device: torch.device) -> "LayerTable | None":
        try:
            return LayerTable(self._layers, self._lengths, self._used, device)
        except torch.OutOfMemoryError:  # another process has taken the memory meanwhile
            return None

    def _padded(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> NDArray[np.floating]:
        """Pad in the stored precision: half as many bytes are copied to the device."""
        sentences = [self._layers[i] for i in chosen]
        shape = sentences[0].shape[0], *mask.shape, sentences[0].shape[2]
        padded: NDArray[np.floating] = np.zeros(shape, sentences[0].dtype)
        for row, layers in enumerate(sentences):
            padded[:, row, : layers.shape[1]] = layers
        return padded


class LayerTable:
    """The words of sentences one after the other, in the stored precision.

    Args:
        layers: of all sentences.
        lengths: (S,) words of each sentence.
        used: indices of the sentences in the table.
        device: of the table.
    """

    def __init__(
        self,
        layers: StoredLayers,
        lengths: NDArray[np.int64],
        used: NDArray[np.int64],
        device: torch.device,
    ) -> None:
        used_lengths = lengths[used]
        self._starts = np.zeros_like(lengths)
        self._starts[used] = np.cumsum(used_lengths) - used_lengths + 1  # row 0 is for padding
        first = layers[0]
        self._num_layers, self._dim = first.shape[0], first.shape[2]
        dtype = torch.from_numpy(np.empty(0, first.dtype)).dtype
        width = self._num_layers * self._dim
        self._table = torch.zeros(1 + int(used_lengths.sum()), width, dtype=dtype, device=device)
        for indices in _portions(used, used_lengths):
            words = np.concatenate([np.asarray(layers[i]).swapaxes(0, 1) for i in indices])
            start = self._starts[indices[0]]
            self._table[start : start + len(words)] = torch.from_numpy(words).flatten(1)

    def batch(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> Tensor:
        """Return the layers of a batch; see `LayerBatches.batch`."""
        rows = (self._starts[list(chosen), None] + np.arange(mask.shape[1])) * mask
        words = F.embedding(to_device(rows, self._table.device), self._table)
        by_layer = words.view(*mask.shape, self._num_layers, self._dim).permute(2, 0, 1, 3)
        return by_layer.new_empty(by_layer.shape, dtype=torch.float32).copy_(by_layer)


def _free(device: torch.device) -> int:
    """Return the free GPU memory in bytes, including torch's cached blocks."""
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def _portions(
    indices: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield indices in portions of at most `_WORDS_AT_ONCE` words, at least one sentence each."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(indices):
        most = ends[start] - lengths[start] + _WORDS_AT_ONCE
        stop = max(start + 1, int(np.searchsorted(ends, most, side="right")))
        yield indices[start:stop]
        start = stop
