"""The RNN of a task: bidirectional LSTMs, which ELMo may join after the first layer or the last."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmox.errors import ElmoxError
from elmox.tasks.embedder import Embedded, Widths


class BiLstm(nn.Module):
    """A bidirectional LSTM over padded sentences.

    Args:
        width: D, of the words.
        cells: of each direction.
    """

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, cells, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """(N, T, D) to (N, T, 2 * cells), zero at padding."""
        return read_padded(self.lstm, words, mask.sum(1).cpu())


def read_padded(rnn: nn.LSTM | nn.GRU, words: Tensor, lengths: Tensor) -> Tensor:
    """What an RNN makes of padded sentences, zero at padding: (N, T, D) to (N, T, directions * C).

    Args:
        rnn: which takes the batch first.
        words: the sentences.
        lengths: (N,) of them, on the CPU.
    """
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    found, _ = rnn(packed)
    padded, _ = pad_packed_sequence(found, batch_first=True, total_length=words.shape[1])
    return padded


class Encoder(nn.Module):
    """Embedded sentences to a vector for every word that has seen all the others.

    Attributes:
        width: of the vectors that come out.
    """

    def __init__(self, widths: Widths, hidden: Sequence[int], dropout: nn.Module) -> None:
        """Make it.

        Args:
            widths: of what goes in.
            hidden: cells of each direction, layer by layer.
            dropout: applied to what each layer gives.
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
        """(N, T, width); what stands at padding means nothing."""
        found = texts.input
        for number, layer in enumerate(self.layers):
            if number == 1 and texts.middle is not None:
                found = torch.cat([found, texts.middle], dim=-1)
            found = self.dropout(layer(found, texts.mask))
        return found if texts.output is None else torch.cat([found, texts.output], dim=-1)


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
