"""The character CNN by table look-up, for inference.

There are only a few hundred characters, so the product of every character with every filter tap
fits in a table of (taps x characters, filters): 13 MB for the published filters. A convolution is
then a sum of `width` table rows per position, which torch fuses into one pass (`embedding_bag`). It
returns the same numbers up to rounding and is 2 to 5 times as fast on a CPU. Computing the table
takes milliseconds, which matter for a single sentence, so it is kept until the weights change.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def filter_table(embedding: Tensor, weight: Tensor) -> Tensor:
    """Return the products of each character with each tap of a bank of filters.

    Args:
        embedding: (characters, E).
        weight: (filters, E, width), as Conv1d stores it.

    Returns:
        (width * characters, filters): row `tap * characters + c`.
    """
    taps = weight.permute(2, 1, 0)  # (width, E, filters)
    return torch.matmul(embedding, taps).flatten(0, 1)


def convolve_and_max(characters: Tensor, table: Tensor, width: int, bias: Tensor) -> Tensor:
    """Convolve spelled words with one bank of filters and take the max over all positions.

    Args:
        characters: (U, C) ids.
        table: from `filter_table`.
        width: taps of the filters.
        bias: (filters,).

    Returns:
        (U, filters), before the activation.
    """
    num_words, num_slots = characters.shape
    num_positions = num_slots - width + 1
    offsets = torch.arange(width, device=characters.device) * (len(table) // width)
    rows = (characters.unfold(1, width, 1) + offsets).reshape(-1, width)  # (U * positions, width)
    sums = F.embedding_bag(rows, table, mode="sum").view(num_words, num_positions, -1)
    return sums.amax(1) + bias
