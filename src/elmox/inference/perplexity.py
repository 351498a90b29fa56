"""Perplexity of a language model on running text, by the full softmax.

As in the paper's evaluation, text is read in parallel rows of consecutive sentences, and the LSTMs'
state is carried from sentence to sentence. Every position counts once in each direction.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmox.inference.next_word import Encode, Ids, Spans, Stream, next_word_log_probs
from elmox.model.bilm import BiLm
from elmox.model.softmax import OutputLayer
from elmox.model.state import LstmState, zero_state
from elmox.text.vocab import END_ID, UNKNOWN_ID

NUM_ROWS = 256  # as in bilm-tf's evaluation
# The first words of a row have no context. In rows of this length the effect is negligible.
MIN_ROW_POSITIONS = 256
WINDOW_POSITIONS = 2**16  # whose distinct words are encoded together


@dataclass(frozen=True)
class StreamNll:
    """Negative log-likelihood of a text, in nats, summed over its positions."""

    forward: float
    backward: float | None  # None for models that only read forward
    num_positions: int  # per direction: n+1 for a sentence of n words
    num_unknown: int  # words scored as <UNK>

    @property
    def forward_perplexity(self) -> float:
        """exp of the mean over positions, of the forward language model."""
        return _perplexity(self.forward / self.num_positions)

    @property
    def backward_perplexity(self) -> float | None:
        """exp of the mean over positions, of the backward language model."""
        return None if self.backward is None else _perplexity(self.backward / self.num_positions)

    @property
    def perplexity(self) -> float:
        """The paper's number: the geometric mean of the directions' perplexities."""
        sums = [self.forward] if self.backward is None else [self.forward, self.backward]
        return _perplexity(sum(sums) / len(sums) / self.num_positions)


def stream_nll(
    bilm: BiLm,
    softmax: OutputLayer,
    encode: Encode,
    stream: Stream,
    num_rows: int = NUM_ROWS,
    window_steps: int | None = None,
    progress: Callable[[int], object] = lambda num_positions: None,
) -> StreamNll:
    """Score a whole stream by the full softmax, without gradients.

    Args:
        bilm: the language model's body.
        softmax: its output layer, on the same device; ids from its number of words on are <UNK>.
        encode: returns token vectors (U, P) of distinct word ids.
        stream: word ids `1 w.. 1 w.. 1` (see `next_word.py`), at least two of them.
        num_rows: rows that are read in parallel, each from zero state; short texts have fewer.
        window_steps: positions of a row that are read at a time; changes memory, not the result.
        progress: called with the number of positions that have just been read.
    """
    bounds = _row_bounds(stream, num_rows)
    order = np.argsort(bounds[:-1] - bounds[1:], kind="stable")  # longest first
    starts, stops = bounds[:-1][order], bounds[1:][order]
    lengths = stops - starts
    steps = window_steps or max(1, WINDOW_POSITIONS // len(lengths))
    lstm = bilm.config.lstm
    state = zero_state(lstm, len(lengths), bilm.device, bilm.dtype)
    sums = np.zeros(lstm.num_directions)
    for done in range(0, int(lengths[0]), steps):
        alive = int(np.searchsorted(-lengths, -done, side="left"))
        read = np.minimum(lengths[:alive] - done, steps)
        spans = Spans(starts[:alive] + done, stops[:alive] - done - read, read)
        state = LstmState(state.hidden[:, :, :alive], state.cell[:, :, :alive])
        log_probs, state = next_word_log_probs(bilm, softmax, encode, stream, spans, state)
        sums -= log_probs.double().sum(1).cpu().numpy()
        progress(int(read.sum()))
    words = stream[1:]
    num_unknown = np.count_nonzero((words == UNKNOWN_ID) | (words >= softmax.num_words))
    backward = float(sums[1]) if lstm.bidirectional else None
    return StreamNll(float(sums[0]), backward, len(words), int(num_unknown))


def _row_bounds(stream: Stream, num_rows: int) -> Ids:
    """Return the bounds of rows of whole sentences and about equal length, (B+1,), rising."""
    num_positions = len(stream) - 1
    num_rows = max(1, min(num_rows, num_positions // MIN_ROW_POSITIONS))
    even = np.arange(1, num_rows) * num_positions // num_rows
    marks = np.append(np.flatnonzero(stream == END_ID), num_positions)
    return np.unique([0, *marks[np.searchsorted(marks, even)], num_positions])


def _perplexity(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf
