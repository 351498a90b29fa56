"""The biLM in training: packed rows, dropout, carried state (Peters et al. 2018, 3.1).

Dropout is applied where bilm-tf applied it: to the input of every LSTM layer, outside the residual,
so that the residual adds the dropped input; and to the top output before the softmax.

Shapes: D directions, T steps, B rows, P projection, L layers, U distinct words.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import ElmoConfig
from elmox.kernels.dropout.dispatch import keyed_dropout
from elmox.model.bilm import BiLm
from elmox.model.lstm import LstmLayer
from elmox.model.state import LstmState
from elmox.text.words import WordTable

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Window(NamedTuple):
    """The biLM's outputs of one window of text."""

    top: Tensor  # (D, T, B, P) input of the softmax
    hidden: Tensor  # (L, D, B, P) state after the window
    cell: Tensor  # (L, D, B, C)
    layers: tuple[Tensor, ...]  # (D, T, B, P) each, the token layer first; none unless asked for


class TrainingNetwork(nn.Module):
    """Map distinct words, and rows of indices into them, to the input of the softmax."""

    def __init__(
        self, bilm: BiLm, dropout: float, precision: torch.dtype, keep_layers: bool = False
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self._dropout = dropout
        self._precision = precision
        self._keep_layers = keep_layers

    def forward(
        self, table: WordTable, inputs: Tensor, state: LstmState, rows: Tensor, keys: Sequence[int]
    ) -> Window:
        """Run the biLM over one window of T steps.

        Args:
            table: U distinct words.
            inputs: (D, T, B) indices into them.
            state: LSTM state of the B rows.
            rows: (B,) their global numbers, by which dropout is drawn.
            keys: L+1 seeds, one for every layer with dropout.
        """
        config: ElmoConfig = self.bilm.config
        vectors = self._encode(table)
        # Not vectors[inputs]: threads sum its gradient in any order, so that no run would be
        # bit-reproducible.
        x = F.embedding(inputs, vectors)
        hidden, cell, layers = [], [], [x]
        for number, (layer, key) in enumerate(zip(self.bilm.lstm, keys, strict=False)):
            assert isinstance(layer, LstmLayer)
            x = keyed_dropout(x, self._dropout, key, rows, row_dim=2)
            out, h, c = layer.read_rows(x, state.hidden[number].to(x.dtype), state.cell[number])
            x = out + x if config.lstm.skip_connections and number > 0 else out
            hidden.append(h)
            cell.append(c)
            layers.append(x)
        top = keyed_dropout(x, self._dropout, keys[-1], rows, row_dim=2)
        kept = tuple(layers) if self._keep_layers else ()
        return Window(top, torch.stack(hidden), torch.stack(cell), kept)

    def _encode(self, table: WordTable) -> Tensor:
        device = self.bilm.device.type
        low = self._precision is torch.bfloat16
        with torch.autocast(device, torch.bfloat16) if low else nullcontext():
            vectors: Tensor = self.bilm.token_encoder(table)
        return vectors.to(self._precision)
