"""The RNN of a task: bidirectional LSTMs, which ELMo may join after the first layer or the last.

Shapes: N sentences, T words of the longest, P words of them all.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from elmox.errors import ElmoxError
from elmox.io.settings import at_least
from elmox.io.transfer import to_device
from elmox.kernels.recurrence.dispatch import read_rows
from elmox.kernels.recurrence.packing import PackedRows, Packing
from elmox.tasks.nn.embedder import Embedded, Widths


class PackedOrder(NamedTuple):
    """The order in which an RNN reads the words of padded sentences: step after step, no padding.

    torch packs sentences too, but copies them step by step, for every RNN anew, and makes the host
    wait for a GPU. All RNNs over the same sentences share an order.
    """

    places: Tensor  # (P,) of the words among all N * T
    rows: PackedRows  # the sentences

    @classmethod
    def of(cls, lengths: Tensor, words: Tensor) -> "PackedOrder":
        """Return the order for sentences of these lengths (N,), on the CPU.

        `words` are the padded sentences, (N, T, ...).
        """
        falling, sentences = (tensor.numpy() for tensor in torch.sort(lengths, descending=True))
        packing = Packing.of(falling)
        places = sentences[packing.rows] * words.shape[1] + packing.steps
        return cls(to_device(places, words.device), packing.on(words.device))


def read_padded(rnn: nn.LSTM | nn.GRU, words: Tensor, order: PackedOrder) -> Tensor:
    """Run an RNN over padded sentences: (N, T, D) to (N, T, directions * C), zero at padding.

    Args:
        rnn: with one layer.
        words: the sentences.
        order: the packed order of their words.
    """
    flat = words.flatten(0, 1)
    outputs = read_rows(rnn, flat.index_select(0, order.places), order.rows)
    padded = outputs.new_zeros(len(flat), outputs.shape[1]).index_copy_(0, order.places, outputs)
    return padded.view(*words.shape[:2], -1)


class EncodedTexts(NamedTuple):
    """Padded texts after an RNN, for classifiers.

    Attributes:
        words: (N, T, 2C) and ELMo's vectors that join after the RNN.
        mask: (N, T), true for words; an empty text has one, the zeros of its padding.
        order: of the words, for further RNNs.
    """

    words: Tensor
    mask: Tensor
    order: PackedOrder


def encode_texts(encoder: nn.Module, texts: Embedded) -> EncodedTexts:
    """Read texts with a bidirectional LSTM and append ELMo's vectors."""
    mask, order = texts.mask.clone(), PackedOrder.of(texts.lengths.clamp(min=1), texts.input)
    mask[:, 0] = True
    elmo = [vectors for vectors in (texts.middle, texts.output) if vectors is not None]
    words = torch.cat([encoder(texts.input, order), *elmo], dim=-1)
    return EncodedTexts(words, mask, order)


def check_layers(name: str, widths: Sequence[int]) -> None:
    """Check the widths of a setting that has one for each layer."""
    at_least(1, f"the number of layers in {name}", len(widths))
    for width in widths:
        at_least(1, name, width)


LayerWidths: TypeAlias = Annotated[tuple[int, ...], check_layers]


class BiLstm(nn.Module):
    """A bidirectional LSTM over padded sentences.

    Args:
        width: D, of the words.
        cells: of each direction.
    """

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, cells, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, order: PackedOrder) -> Tensor:
        """(N, T, D) to (N, T, 2 * cells), zero at padding."""
        return read_padded(self.lstm, words, order)


class Encoder(nn.Module):
    """Embedded sentences to a vector for every word that has seen all the others.

    Attributes:
        width: of the output vectors.
    """

    def __init__(self, widths: Widths, hidden: Sequence[int], dropout: nn.Module) -> None:
        """Initialize the layers.

        Args:
            widths: of the input.
            hidden: cells of each direction, per layer.
            dropout: applied to the output of each layer.
        """
        super().__init__()
        if widths.middle and len(hidden) < 2:
            raise ElmoxError('elmo.place is "middle": give head.hidden two layers or more')
        self.layers = nn.ModuleList()
        width = widths.input
        for number, cells in enumerate(hidden):
            width += widths.middle if number == 1 else 0
            self.layers.append(BiLstm(width, cells))
            width = 2 * cells
        self.dropout = dropout
        self.width = width + widths.output

    def forward(self, texts: Embedded) -> Tensor:
        """Return (N, T, width); the values at padding are arbitrary."""
        vectors, order = texts.input, PackedOrder.of(texts.lengths, texts.input)
        for number, layer in enumerate(self.layers):
            if number == 1 and texts.middle is not None:
                vectors = torch.cat([vectors, texts.middle], dim=-1)
            vectors = self.dropout(layer(vectors, order))
        return vectors if texts.output is None else torch.cat([vectors, texts.output], dim=-1)


class SharedDropout(nn.Module):
    """Dropout that drops the same numbers of all words of a sentence (Gal and Ghahramani 2016)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._rate = rate

    def forward(self, vectors: Tensor) -> Tensor:
        """(N, T, W) -> (N, T, W)."""
        if not self.training or not self._rate:
            return vectors
        kept = torch.empty_like(vectors[:, :1]).bernoulli_(1 - self._rate)
        return vectors * (kept / (1 - self._rate))
