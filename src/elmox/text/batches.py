"""Sentences to batches: distinct words, a token budget, no padding.

A batch is *ragged*: its sentences are concatenated, so nothing is computed for padding and a vector
cannot depend on it. The LSTMs read the same tokens time step by time step; `time_major` returns
that order for both directions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")


def in_chunks(
    items: Iterable[Item], size: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Yield consecutive items whose sizes add up to at most `most`; a larger item is alone."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        item_size = size(item)
        if chunk and total + item_size > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += item_size
    if chunk:
        yield chunk


@dataclass(frozen=True)
class IndexedSentences:
    """B sentences with their boundaries, concatenated, as an index into their distinct words.

    Attributes:
        words: U distinct words, the boundaries first.
        index: (N,) the position of every token in `words`, sentence after sentence.
        lengths: (B,) number of tokens per sentence, with boundaries.
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]


def index_sentences(sentences: Sequence[Sequence[str]], begin: str, end: str) -> IndexedSentences:
    """Wrap every sentence as `begin w1 .. wn end` and index its words."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)) + 2
    # A new word gets the number of words before it: one pass over the tokens, all of it in C.
    ids: defaultdict[str, int] = defaultdict()
    ids.default_factory = ids.__len__
    bounds = [ids[begin], ids[end]]
    num_tokens = int(lengths.sum()) - 2 * len(lengths)
    tokens = np.fromiter(
        map(ids.__getitem__, chain.from_iterable(sentences)), dtype=np.int64, count=num_tokens
    )
    index = np.empty(num_tokens + 2 * len(lengths), dtype=np.int64)
    is_bound = np.zeros(len(index), dtype=bool)
    for bound, positions in zip(bounds, bound_positions(lengths), strict=True):
        index[positions] = bound
        is_bound[positions] = True
    index[~is_bound] = tokens
    return IndexedSentences(list(ids), index, lengths)


def bound_positions(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the begin and of the end boundaries in a ragged batch, (B,) each."""
    ends = np.cumsum(lengths)
    return ends - lengths, ends - 1


def rows_without_bounds(
    lengths: NDArray[np.int64], first: NDArray[np.int64], dropped: int
) -> NDArray[np.int64]:
    """Return an output row for every token of a ragged batch, (N,).

    Args:
        lengths: (B,) number of tokens per sentence, with boundaries.
        first: (B,) the row of each sentence's first word; its other words follow.
        dropped: the row of all boundaries.
    """
    begins, ends = bound_positions(lengths)
    rows = np.arange(int(lengths.sum())) + np.repeat(first - begins - 1, lengths)
    rows[begins] = rows[ends] = dropped
    return rows


@dataclass(frozen=True)
class TimeMajor:
    """The order in which the LSTMs read a ragged batch.

    Step t reads token t of the `step_sizes[t]` sentences that are long enough. Rows are sorted by
    decreasing length, so these are always the first ones.

    Attributes:
        rows: (B,) the batch's sentences, longest first.
        step_sizes: (T,) number of rows per step.
        forward: (N,) positions in the ragged batch, step by step, read from the left.
        backward: (N,) the same, with every sentence read from its end.
    """

    rows: NDArray[np.int64]
    step_sizes: NDArray[np.int64]
    forward: NDArray[np.int64]
    backward: NDArray[np.int64]


def time_major(lengths: NDArray[np.int64]) -> TimeMajor:
    """Sort a ragged batch into time steps. Lengths must be positive."""
    rows = np.argsort(-lengths, kind="stable")
    ordered = lengths[rows]
    starts = (np.cumsum(lengths) - lengths)[rows]
    # The number of rows longer than t, for every t, without a (T, B) table: a sentence of a million
    # tokens next to a short one must not cost a million rows.
    step_sizes = np.searchsorted(-ordered, -np.arange(ordered[0]), side="left")
    step = np.repeat(np.arange(len(step_sizes)), step_sizes)
    row = np.arange(len(step)) - np.repeat(np.cumsum(step_sizes) - step_sizes, step_sizes)
    forward = starts[row] + step
    backward = starts[row] + ordered[row] - 1 - step
    return TimeMajor(rows, step_sizes, forward, backward)


def plan_batches(
    lengths: Sequence[int] | NDArray[np.int64], batch_tokens: int, batch_size: int | None = None
) -> list[NDArray[np.int64]]:
    """Divide sentences into batches of about `batch_tokens` tokens, longest first.

    Sentences of similar length are batched together, so that few time steps run on few rows. The
    longest come first, so that a batch too large for the memory fails at once. A sentence longer
    than the budget is a batch by itself.

    Args:
        lengths: number of tokens per sentence.
        batch_tokens: maximum number of tokens per batch; any number.
        batch_size: maximum number of sentences per batch; None for no limit.

    Returns:
        Indices into `lengths`, each of them once.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    most = len(order) if batch_size is None else batch_size
    batches: list[NDArray[np.int64]] = []
    total = np.concatenate([[0], np.cumsum(sizes[order])])
    budget = min(batch_tokens, int(total[-1]))
    start = 0
    while start < len(order):
        stop = int(np.searchsorted(total, total[start] + budget, side="right")) - 1
        stop = min(max(stop, start + 1), start + most)
        batches.append(order[start:stop])
        start = stop
    return batches
