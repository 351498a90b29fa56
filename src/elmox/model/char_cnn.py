"""The character CNN: a word's spelling to one vector (Kim et al. 2015; Peters et al. 2018, 3.4).

Shapes: U words, C character slots, E character embedding, F filters in all.
"""

import itertools
from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import Activation, CharCnnConfig
from elmox.kernels.char_cnn.cpu_table import convolve_and_max, filter_table
from elmox.kernels.char_cnn.dispatch import CharCnnWeights, triton_char_cnn
from elmox.kernels.derived import Derived
from elmox.kernels.torch_modes import modes_off

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
}
# Words that go through the CNN together: their (words, positions, filters) sums stay in cache.
WORDS_AT_ONCE = 128


def _cuts(num_words: int, device: torch.device) -> list[int]:
    """Return the bounds of groups of words, sorted by length, that are convolved together.

    A GPU is faster with few groups: the shorter half, most others, and the few long words.
    """
    if device.type == "cpu":
        return [*range(0, num_words, WORDS_AT_ONCE), num_words]
    return sorted({0, num_words // 2, num_words * 7 // 8, num_words * 31 // 32, num_words})


def _num_spare(num_words: int, device: torch.device) -> int:
    """Return the number of words to add, so that few different numbers of words occur.

    On a GPU cuDNN plans every new shape, which takes longer than the convolution itself.
    """
    return 0 if device.type == "cpu" else -num_words % 1024


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
        self._tables: Derived[list[Tensor]] = Derived()

    def forward(self, characters: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Convolve, take the maximum, then activate. Autograd can follow.

        Args:
            characters: (U, C) ids, of any integer type.
            lengths: (U,) used slots of each word (word marks counted), on the CPU. With them short
                words are convolved on few slots, see `slots_needed`.
        """
        pooled = self._run_kernels(characters, lengths)
        if pooled is not None:
            return pooled
        if lengths is None or len(lengths) == 0:
            return self.activation(self._convolve(characters))
        lengths, order = torch.sort(lengths, stable=True)
        num_spare = _num_spare(len(lengths), characters.device)
        # Copies of the shortest word, at the front, where words cost least.
        padded = F.pad(order, (num_spare, 0), value=int(order[0]))
        lengths = F.pad(lengths, (num_spare, 0))
        spelled = characters[padded.to(characters.device)]
        parts = [
            self._convolve(spelled[start:stop, : self._slots(int(lengths[stop - 1]), spelled)])
            for start, stop in itertools.pairwise(_cuts(len(lengths), characters.device))
        ]
        order = order.to(characters.device)
        pooled = torch.cat(parts)[num_spare:]
        return self.activation(torch.empty_like(pooled).index_copy_(0, order, pooled))

    def slots_needed(self, length: int) -> int:
        """Return the number of slots that the vector of a word of this length depends on.

        Windows beyond length + widest filter are all padding, and one such window is kept for the
        max. So the result and its gradient are the same.
        """
        widest = max(width for width, _ in self.config.filters)
        return min(self.config.max_characters, length + widest)

    def _slots(self, length: int, like: Tensor) -> int:
        """Return `slots_needed`, rounded up on a GPU for the reason in `_num_spare`."""
        needed = self.slots_needed(length)
        if like.device.type == "cpu":
            return needed
        return min(self.config.max_characters, -(-needed // 8) * 8)

    def _convolve(self, characters: Tensor) -> Tensor:
        """Return the maxima before the activation, (U, F)."""
        embedded = self.embedding(characters.long()).transpose(1, 2)  # (U, E, C)
        # max keeps the indexes of the maxima for its backward pass, amax would keep all sums
        pooled = [convolution(embedded).max(-1).values for convolution in self.convolutions]
        return torch.cat(pooled, dim=-1)

    def _run_kernels(self, characters: Tensor, lengths: Tensor | None) -> Tensor | None:
        """Do the same with Triton kernels; return None if they do not apply."""
        convolutions = cast(list[nn.Conv1d], list(self.convolutions))
        weights = CharCnnWeights(
            table=self.embedding.weight,
            filters=[convolution.weight for convolution in convolutions],
            biases=[cast(Tensor, convolution.bias) for convolution in convolutions],
        )
        return triton_char_cnn(self.config, characters, lengths, weights)

    @torch.no_grad()
    def infer(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """Do the same without gradients, fast: without kernels, by table look-up.

        Args:
            characters: (U, C) ids, of any integer type.
            lengths: (U,) used slots of each word (word marks counted), on the CPU.
        """
        pooled = self._run_kernels(characters, lengths)
        if pooled is not None:
            return pooled
        with modes_off(characters.device):
            return self._look_up(characters, lengths)

    def _look_up(self, characters: Tensor, lengths: Tensor) -> Tensor:
        convolutions = cast(list[nn.Conv1d], list(self.convolutions))
        tables = self._tables.get(
            [self.embedding.weight, *(c.weight for c in convolutions)],
            lambda: [filter_table(self.embedding.weight, c.weight) for c in convolutions],
        )
        biases = [cast(Tensor, c.bias) for c in convolutions]
        order = torch.argsort(lengths, stable=True)
        pooled = characters.new_empty(
            (len(characters), self.config.num_filters), dtype=self.embedding.weight.dtype
        )
        for start in range(0, len(order), WORDS_AT_ONCE):
            chunk = order[start : start + WORDS_AT_ONCE]
            slots = self.slots_needed(int(lengths[chunk[-1]]))
            chunk = chunk.to(characters.device)
            spelled = characters[chunk, :slots]
            banks = [
                convolve_and_max(spelled, table, width, bias)
                for (width, _), table, bias in zip(self.config.filters, tables, biases, strict=True)
            ]
            pooled[chunk] = torch.cat(banks, dim=-1)
        return self.activation(pooled)
