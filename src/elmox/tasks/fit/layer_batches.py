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

from elmox.io.transfer import to_device

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
        used: places of the sentences that may be asked for; None for all.
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
        """(L+1, N, T, D) float32, zero at padding.

        Args:
            chosen: places of the sentences.
            mask: (N, T) true where one of them has a word.
            device: where they are wanted.
        """
        table = self.table(device)
        if table is None:
            return to_device(self._padded(chosen, mask), device).float()
        return table.batch(chosen, mask)

    def table(self, device: torch.device) -> "LayerTable | None":
        """The table on a GPU; None for other devices, and where there is no room."""
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
        except torch.OutOfMemoryError:  # another process was faster
            return None

    def _padded(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> NDArray[np.floating]:
        """In the precision that they are kept in: half as much is then sent."""
        own = [self._layers[i] for i in chosen]
        shape = own[0].shape[0], *mask.shape, own[0].shape[2]
        padded: NDArray[np.floating] = np.zeros(shape, own[0].dtype)
        for row, found in enumerate(own):
            padded[:, row, : found.shape[1]] = found
        return padded


class LayerTable:
    """The words of sentences, one after the other, in the precision that they are kept in.

    Args:
        layers: of all sentences.
        lengths: (S,) their words.
        used: places of those that are to be in the table.
        device: where it is to lie.
    """

    def __init__(
        self,
        layers: StoredLayers,
        lengths: NDArray[np.int64],
        used: NDArray[np.int64],
        device: torch.device,
    ) -> None:
        own = lengths[used]
        self._starts = np.zeros_like(lengths)
        self._starts[used] = np.cumsum(own) - own + 1  # row 0 is that of padding
        first = layers[0]
        self._num_layers, self._dim = first.shape[0], first.shape[2]
        dtype = torch.from_numpy(np.empty(0, first.dtype)).dtype
        width = self._num_layers * self._dim
        self._table = torch.zeros(1 + int(own.sum()), width, dtype=dtype, device=device)
        for places in _portions(used, own):
            words = np.concatenate([np.asarray(layers[i]).swapaxes(0, 1) for i in places])
            start = self._starts[places[0]]
            self._table[start : start + len(words)] = torch.from_numpy(words).flatten(1)

    def batch(self, chosen: Sequence[int], mask: NDArray[np.bool_]) -> Tensor:
        """As `LayerBatches` has it."""
        rows = (self._starts[list(chosen), None] + np.arange(mask.shape[1])) * mask
        found = F.embedding(to_device(rows, self._table.device), self._table)
        by_layer = found.view(*mask.shape, self._num_layers, self._dim).permute(2, 0, 1, 3)
        return by_layer.new_empty(by_layer.shape, dtype=torch.float32).copy_(by_layer)


def _free(device: torch.device) -> int:
    """Bytes that are to be had: those of the GPU, and those that torch has in hand."""
    in_hand = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + in_hand


def _portions(places: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Places in portions of not too many words, a sentence at least."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(places):
        most = ends[start] - lengths[start] + _WORDS_AT_ONCE
        stop = max(start + 1, int(np.searchsorted(ends, most, side="right")))
        yield places[start:stop]
        start = stop
