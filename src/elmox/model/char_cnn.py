"""The character CNN: a word's spelling to one vector (Kim et al. 2015; Peters et al. 2018, 3.4).

Shapes: U words, C character slots, E character embedding, F filters in all.
"""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from elmox.config import Activation, CharCnnConfig
from elmox.ops.char_cnn import convolve_and_max, filter_table

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
}
# Words that go through the CNN together: their (words, positions, filters) sums stay in cache.
WORDS_AT_ONCE = 128


class CharCnn(nn.Module):
    """Convolutions without padding, max over all positions, activation: (U, C) -> (U, F).

    Padding slots take part in the max: the learned vector of in-word padding matters.
    """

    def __init__(self, config: CharCnnConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.num_characters, config.embedding_dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding_dim, count, width) for width, count in config.filters
        )
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, characters: Tensor) -> Tensor:
        """The plain way, which autograd can follow. Max first, activation second."""
        embedded = self.embedding(characters).transpose(1, 2)  # (U, E, C)
        pooled = [convolution(embedded).amax(-1) for convolution in self.convolutions]
        return self.activation(torch.cat(pooled, dim=-1))

    @torch.no_grad()
    def infer(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """The same without gradients, fast: by table look-up, short words on few slots.

        A word of n used slots needs only the first min(C, n + widest filter): all windows beyond
        are all padding, and one of those is kept for the max.

        Args:
            characters: (U, C) ids.
            lengths: (U,) used slots of each word (word marks counted), on the CPU.
        """
        widest = max(width for width, _ in self.config.filters)
        convolutions = cast(list[nn.Conv1d], list(self.convolutions))
        tables = [filter_table(self.embedding.weight, c.weight) for c in convolutions]
        biases = [cast(Tensor, c.bias) for c in convolutions]
        order = torch.argsort(lengths, stable=True)
        pooled = characters.new_empty(
            (len(characters), self.config.num_filters), dtype=self.embedding.weight.dtype
        )
        for start in range(0, len(order), WORDS_AT_ONCE):
            chunk = order[start : start + WORDS_AT_ONCE]
            slots = min(characters.shape[1], int(lengths[chunk[-1]]) + widest)
            chunk = chunk.to(characters.device)
            spelled = characters[chunk, :slots]
            banks = [
                convolve_and_max(spelled, table, width, bias)
                for (width, _), table, bias in zip(self.config.filters, tables, biases, strict=True)
            ]
            pooled[chunk] = torch.cat(banks, dim=-1)
        return self.activation(pooled)
