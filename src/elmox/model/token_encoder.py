"""The context-independent token encoder: distinct words to the vectors that the LSTMs read.

Character CNN, highways and a linear projection, as in the paper's section 3.4; models with a word
vocabulary look the word up instead (bilm-tf) or put its embedding in front of the highways' output
before the projection (ELMoForManyLangs).
"""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.config import ElmoConfig
from elmox.io.transfer import to_device
from elmox.model.char_cnn import CharCnn
from elmox.model.highway import Highway
from elmox.text.chars import Spelling
from elmox.text.words import WordTable


class TokenEncoder(nn.Module):
    """U distinct words -> (U, P)."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        words, char_cnn = config.words, config.char_cnn
        self.word_embedding = nn.Embedding(words.num_words, words.dim) if words else None
        self.char_cnn = CharCnn(char_cnn) if char_cnn else None
        num_highways, num_filters = (
            (char_cnn.num_highways, char_cnn.num_filters) if char_cnn else (0, 0)
        )
        self.highways = nn.ModuleList(Highway(num_filters) for _ in range(num_highways))
        self.projection = (
            nn.Linear(config.encoder_dim, config.lstm.projection_dim)
            if config.token_projection
            else None
        )

    def forward(self, table: WordTable) -> Tensor:
        """Encode distinct words. Without gradients the fast character CNN runs."""
        parts: list[Tensor] = []
        if self.word_embedding is not None:
            ids = _to_device(table.ids, self.word_embedding.weight.device)
            parts.append(self.word_embedding(ids.long()))
        if self.char_cnn is not None:
            assert table.spelling is not None
            device = self.char_cnn.embedding.weight.device
            parts.append(self._spell(self.char_cnn, table.spelling, device))
        encoded = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
        return encoded if self.projection is None else cast(Tensor, self.projection(encoded))

    def _spell(self, char_cnn: CharCnn, spelling: Spelling, device: torch.device) -> Tensor:
        characters = _to_device(spelling.ids, device)
        lengths = torch.from_numpy(spelling.lengths)
        if torch.is_grad_enabled():
            encoded = cast(Tensor, char_cnn(characters, lengths))
        else:
            encoded = char_cnn.infer(characters, lengths)
        for highway in self.highways:
            encoded = highway(encoded)
        return encoded


def _to_device(ids: NDArray[np.integer[Any]] | None, device: torch.device) -> Tensor:
    assert ids is not None, "the word table lacks what the encoder reads"
    # A GPU takes them as narrow as they are.
    return to_device(ids if device.type == "cuda" else ids.astype(np.int64), device)
