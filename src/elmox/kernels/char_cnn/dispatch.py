"""The character CNN by Triton kernels, where they apply.

`model/char_cnn.py` is the plain version; without gradients it looks sums up in `cpu_table.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from elmox.config import CharCnnConfig
from elmox.kernels.availability import why_not_triton


class CharCnnWeights(NamedTuple):
    """The weights of a character CNN."""

    table: Tensor  # (characters, E) embeddings
    filters: Sequence[Tensor]  # (filters, E, width) of each bank, as Conv1d stores them
    biases: Sequence[Tensor]  # (filters,) of each bank


def triton_char_cnn(
    config: CharCnnConfig, characters: Tensor, lengths: Tensor | None, weights: CharCnnWeights
) -> Tensor | None:
    """Run the kernels: (U, C) -> (U, F). Return None where they do not apply.

    Args:
        config: sizes, widths and activation.
        characters: (U, C) ids, of any integer type.
        lengths: (U,) used slots of each word, on the CPU; None to use all slots.
        weights: those of the network.
    """
    num_words, num_slots = characters.shape
    if num_words == 0 or num_slots != config.max_characters or why_not_triton(weights.table):
        return None
    from elmox.kernels.char_cnn.triton_kernels import char_cnn, fits, working_dtype

    if not fits(config, working_dtype(weights.table)):
        return None
    return char_cnn(config, characters, lengths, weights)
