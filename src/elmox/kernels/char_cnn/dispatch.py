"""The character CNN by Triton kernels, where they apply.

`model/char_cnn.py` is the plain version; without gradients it looks sums up in `cpu_table.py`.
"""

from collections.abc import Sequence

from torch import Tensor

from elmox.config import CharCnnConfig
from elmox.kernels.availability import why_not_triton


def triton_char_cnn(
    config: CharCnnConfig,
    characters: Tensor,
    lengths: Tensor | None,
    table: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor | None:
    """Run the kernels: (U, C) -> (U, F). Return None where they do not apply.

    Args:
        config: sizes, widths and activation.
        characters: (U, C) ids, of any integer type.
        lengths: (U,) used slots of each word, on the CPU; None to use all slots.
        table: (characters, E) embeddings.
        weights: (filters, E, width) of each bank, as Conv1d stores them.
        biases: (filters,) of each bank.
    """
    num_words, num_slots = characters.shape
    if num_words == 0 or num_slots != config.max_characters or why_not_triton(table) is not None:
        return None
    from elmox.kernels.char_cnn.triton_kernels import char_cnn, fits, working_dtype

    if not fits(config, working_dtype(table)):
        return None
    return char_cnn(config, characters, lengths, table, weights, biases)
