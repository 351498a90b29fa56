"""The floor: the least time that a piece of work can take on a machine.

The floor counts the multiplications that the network cannot avoid, at the rate at which this
machine multiplied two large matrices in the same run. The share of the floor shows the cost of
everything else: gates, memory traffic, launches, text. Letters: C cells, P projection, D
directions, E the width of a character, F filters in all, w taps and n filters of a bank.

| unit | multiply-adds, forward |
|---|---|
| a token in an LSTM layer | D (4CP + 4CP + CP): input, state, projection |
| a distinct word | w n E per window of each bank; 2FF per highway; FP |
| a token in the softmax | D P per class it is scored against |

Training is three times that: each forward product has two in the backward pass, for its input and
its weights. Only the convolutions differ: of all windows of a filter one is the maximum, and the
others have no gradient. A word does not need all windows either: one window of padding is as good
as many.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.bench.timing import median_seconds
from elmox.config import ElmoConfig, LstmConfig
from elmox.kernels.linear.cpu_int8 import Int8Linear
from elmox.model.softmax import AdaptiveSoftmax

SIDE = {"cuda": 8192, "cpu": 2048}  # of the matrices: large enough for the best rate
REPEATS = {"cuda": 9, "cpu": 3}


@dataclass(frozen=True)
class ProductRate:
    """The rate at which this machine multiplies two square matrices.

    Attributes:
        flops: floating-point operations per second, two for a multiply-add.
        side: rows and columns of the matrices.
        dtype: their data type.
    """

    flops: float
    side: int
    dtype: str

    def seconds(self, multiply_adds: float) -> float:
        """Return the floor of a number of multiply-adds, in seconds."""
        return 2 * multiply_adds / self.flops

    def __str__(self) -> str:
        shown = f"{self.flops / 1e12:.0f} TFLOP/s" if self.flops > 1e13 else (
            f"{self.flops / 1e9:,.0f} GFLOP/s"
        )  # fmt: skip
        return f"{shown} in {self.dtype}, by {self.side} x {self.side} matrices in this run"


@dataclass(frozen=True)
class WordWork:
    """Multiply-adds of some distinct words.

    Attributes:
        convolutions: the windows that can be maxima.
        winners: one window per filter and word.
        dense: highways and projection.
        embedding_dim: E.
    """

    convolutions: int
    winners: int
    dense: int
    embedding_dim: int

    def inference(self, by_table: bool) -> float:
        """Return the forward work. With a table of sums, a window is w additions of n numbers."""
        return self.convolutions / (self.embedding_dim if by_table else 1) + self.dense

    @property
    def training(self) -> float:
        """The work of the forward and the backward pass."""
        return self.convolutions + 2 * self.winners + 3 * self.dense


def product_rate(device: torch.device, dtype: torch.dtype) -> ProductRate:
    """Measure the rate: the median of several products. int8 products are elmox's own."""
    side, repeats = SIDE.get(device.type, 2048), REPEATS.get(device.type, 3)
    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    product = Int8Linear(right) if dtype == torch.int8 else partial(torch.mm, right.to(dtype))
    factor = left if dtype == torch.int8 else left.to(dtype)
    seconds = median_seconds(lambda: product(factor), device, repeats)
    return ProductRate(2 * side**3 / seconds, side, str(dtype).removeprefix("torch."))


def lstm_work(lstm: LstmConfig) -> int:
    """Return the multiply-adds of a token in one layer, all directions, forward."""
    products = 9 if lstm.has_projection else 8
    return lstm.num_directions * products * lstm.cell_dim * lstm.projection_dim


def word_work(config: ElmoConfig, lengths: NDArray[np.int64]) -> WordWork:
    """Return the multiply-adds of distinct words.

    Args:
        config: the network.
        lengths: (U,) used slots of each word, word marks included.
    """
    num_words, char_cnn = len(lengths), config.char_cnn
    dense = config.encoder_dim * config.lstm.projection_dim if config.token_projection else 0
    if char_cnn is None:
        return WordWork(0, 0, num_words * dense, 1)
    dense += char_cnn.num_highways * 2 * char_cnn.num_filters**2
    convolutions = winners = 0
    for width, count in char_cnn.filters:
        per_window = width * count * char_cnn.embedding_dim
        windows = np.minimum(char_cnn.max_characters - width, lengths) + 1
        convolutions += per_window * int(windows.sum())
        winners += per_window * num_words
    return WordWork(convolutions, winners, num_words * dense, char_cnn.embedding_dim)


def adaptive_work(softmax: AdaptiveSoftmax, targets: NDArray[np.int64]) -> int:
    """Return the multiply-adds of an adaptive softmax: its head for all, clusters for theirs."""
    layer = softmax.layer
    work = targets.size * layer.head.weight.numel()
    bounds = zip(layer.cutoffs[:-1], layer.cutoffs[1:], layer.tail, strict=True)
    for start, stop, cluster in bounds:
        inside = int(((targets >= start) & (targets < stop)).sum())
        work += inside * sum(weight.numel() for weight in cluster.parameters())
    return work
