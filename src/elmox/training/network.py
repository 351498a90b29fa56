"""The biLM while it is trained: packed rows, dropout, carried state (Peters et al. 2018, 3.1).

Dropout sits where bilm-tf had it: on the input of every LSTM layer, outside the residual, so that
the residual adds the dropped input; and on the top output before the softmax.

Shapes: D directions, T steps, B rows, P projection, L layers, U distinct words.
"""

from collections.abc import Sequence
from contextlib import nullcontext

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


class TrainingNetwork(nn.Module):
    """Distinct words and rows of places among them to what the softmax reads."""

    def __init__(self, bilm: BiLm, dropout: float, precision: torch.dtype) -> None:
        super().__init__()
        self.bilm = bilm
        self._dropout = dropout
        self._precision = precision

    def forward(
        self, table: WordTable, inputs: Tensor, state: LstmState, rows: Tensor, keys: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read one window.

        Args:
            table: U distinct words.
            inputs: (D, T, B) places among them.
            state: where the B rows are.
            rows: (B,) their global numbers, by which dropout is drawn.
            keys: L+1 numbers, one for every place with dropout.

        Returns:
            (D, T, B, P) for the softmax; then hidden (L, D, B, P) and cell (L, D, B, C) state.
        """
        config: ElmoConfig = self.bilm.config
        vectors = self._encode(table)
        # Not vectors[inputs]: its gradient is summed by threads in any order, and no run would be
        # repeatable to the last bit.
        x = F.embedding(inputs, vectors)
        hidden, cell = [], []
        for number, (layer, key) in enumerate(zip(self.bilm.lstm, keys, strict=False)):
            assert isinstance(layer, LstmLayer)
            x = keyed_dropout(x, self._dropout, key, rows, row_dim=2)
            out, h, c = layer.read_rows(x, state.hidden[number].to(x.dtype), state.cell[number])
            x = out + x if config.lstm.skip_connections and number > 0 else out
            hidden.append(h)
            cell.append(c)
        top = keyed_dropout(x, self._dropout, keys[-1], rows, row_dim=2)
        return top, torch.stack(hidden), torch.stack(cell)

    def _encode(self, table: WordTable) -> Tensor:
        device = self.bilm.device.type
        low = self._precision is torch.bfloat16
        with torch.autocast(device, torch.bfloat16) if low else nullcontext():
            vectors: Tensor = self.bilm.token_encoder(table)
        return vectors.to(self._precision)
