"""Running text to the log-probability of every word, in both directions (section 3.1).

Text is a *stream* of word ids, `1 w1..wn 1 w1..wm 1`: every sentence between two marks. The first
ids of a language model's vocabulary are 0 `<S>`, 1 `</S>`, 2 `<UNK>`; ids beyond it are words that
can be read but not predicted. Position p is between the elements p and p+1 of the stream:

    forward   reads s[p], a mark as <S>        and predicts s[p+1], a mark being </S>
    backward  reads s[p+1], a mark as </S>     and predicts s[p], a mark being <S>

So a sentence of n words has n+1 positions, and a boundary is never predicted from a boundary.

Shapes: D directions, N positions, U distinct words, P projection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.kernels.torch_modes import modes_off
from elmox.model.bilm import BiLm, Window
from elmox.model.softmax import OutputLayer
from elmox.model.state import LstmState
from elmox.text.vocab import BEGIN_ID, END_ID, UNKNOWN_ID

Ids: TypeAlias = NDArray[np.int64]
Stream: TypeAlias = NDArray[np.integer[Any]]
Encode: TypeAlias = Callable[[Ids], Tensor]  # distinct word ids -> (U, P) token vectors


@dataclass(frozen=True)
class Spans:
    """Consecutive positions of a stream, for B rows. The two directions may read different ones."""

    forward: Ids  # (B,) first position of each row's span
    backward: Ids  # (B,)
    lengths: Ids  # (B,) number of positions of each span, at least 1

    def positions(self, num_directions: int) -> Ids:
        """Return all positions, (D, N), row after row, in the order of the text."""
        within = np.arange(self.lengths.sum()) - np.repeat(
            np.cumsum(self.lengths) - self.lengths, self.lengths
        )
        starts = (self.forward, self.backward)[:num_directions]
        return np.stack([np.repeat(start, self.lengths) + within for start in starts])


def next_word_log_probs(
    bilm: BiLm, softmax: OutputLayer, encode: Encode, stream: Stream, spans: Spans, state: LstmState
) -> tuple[Tensor, LstmState]:
    """Read a span of every row.

    Args:
        bilm: the language model's body.
        softmax: its output layer, on the same device.
        encode: returns token vectors of distinct word ids.
        stream: word ids; any array, also a memory-mapped one.
        spans: the positions to read. The forward stack begins at the left end, the backward one at
            the right.
        state: start state of the B rows.

    Returns:
        Log-probabilities (D, N) in the order of `spans.positions`, and the state after the spans.
    """
    with modes_off(bilm.device):
        return _next_word_log_probs(bilm, softmax, encode, stream, spans, state)


def _next_word_log_probs(
    bilm: BiLm, softmax: OutputLayer, encode: Encode, stream: Stream, spans: Spans, state: LstmState
) -> tuple[Tensor, LstmState]:
    positions = spans.positions(bilm.config.lstm.num_directions)
    inputs = stream[positions + np.array([[0], [1]])[: len(positions)]].astype(np.int64)
    targets = stream[positions + np.array([[1], [0]])[: len(positions)]].astype(np.int64)
    inputs[0][inputs[0] == END_ID] = BEGIN_ID
    targets[1:][targets[1:] == END_ID] = BEGIN_ID
    targets[targets >= softmax.num_words] = UNKNOWN_ID
    words, index = np.unique(inputs, return_inverse=True)
    target_ids = torch.from_numpy(targets).to(bilm.device)
    dtype = torch.promote_types(bilm.dtype, torch.float32)
    log_probs = torch.empty(target_ids.shape, device=bilm.device, dtype=dtype)

    def predict(window: Window) -> None:
        top = window.layers[-1].flatten(0, 1)  # (D*n, P)
        positions = window.positions
        of_window = softmax.target_log_probs(top, target_ids.gather(1, positions).flatten())
        log_probs.scatter_(1, positions, of_window.view(positions.shape).to(dtype))

    final = bilm.infer(encode(words), index.reshape(inputs.shape), spans.lengths, state, predict)
    return log_probs, final
