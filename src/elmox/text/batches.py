"""Sentences to batches: distinct words, a token budget, and no padding anywhere.

A batch is *ragged*: its sentences lie end to end, so nothing is computed for padding and a vector
cannot depend on it. The LSTMs want the same tokens time step by time step; `time_major` gives that
order for both reading directions.
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
    """Consecutive items whose sizes add up to at most `most`; a larger one stands alone."""
    chunk: list[Item] = []
    total = 0
    for item in items:
        own = size(item)
        if chunk and total + own > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += own
    if chunk:
        yield chunk


@dataclass(frozen=True)
class IndexedSentences:
    """B sentences, bounded and end to end, as an index into their distinct words.

    Attributes:
        words: U distinct words, the boundaries first.
        index: (N,) for every token its place in `words`, sentence after sentence.
        lengths: (B,) tokens of each sentence, boundaries counted.
    """

    words: list[str]
    index: NDArray[np.int64]
    lengths: NDArray[np.int64]


def index_sentences(sentences: Sequence[Sequence[str]], begin: str, end: str) -> IndexedSentences:
    """Wrap every sentence as `begin w1 .. wn end` and look each distinct word up once."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)) + 2
    # A word not met before gets the number of those met: one pass over the tokens, all of it in C.
    place: defaultdict[str, int] = defaultdict()
    place.default_factory = place.__len__
    bounds = [place[begin], place[end]]
    num_tokens = int(lengths.sum()) - 2 * len(lengths)
    own = np.fromiter(
        map(place.__getitem__, chain.from_iterable(sentences)), dtype=np.int64, count=num_tokens
    )
    index = np.empty(num_tokens + 2 * len(lengths), dtype=np.int64)
    is_bound = np.zeros(len(index), dtype=bool)
    for bound, places in zip(bounds, bound_places(lengths), strict=True):
        index[places] = bound
        is_bound[places] = True
    index[~is_bound] = own
    return IndexedSentences(list(place), index, lengths)


def bound_places(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sentences of a ragged batch begin and where they end: the boundaries' places."""
    ends = np.cumsum(lengths)
    return ends - lengths, ends - 1


def rows_without_bounds(
    lengths: NDArray[np.int64], first: NDArray[np.int64], dropped: int
) -> NDArray[np.int64]:
    """A row for every token of a ragged batch, (N,).

    Args:
        lengths: (B,) tokens of each sentence, boundaries counted.
        first: (B,) the row of each sentence's first own word; its others follow.
        dropped: the row of all boundaries.
    """
    begins, ends = bound_places(lengths)
    rows = np.arange(int(lengths.sum())) + np.repeat(first - begins - 1, lengths)
    rows[begins] = rows[ends] = dropped
    return rows


@dataclass(frozen=True)
class TimeMajor:
    """The order in which the LSTMs read a ragged batch.

    Step t reads token t of the `step_sizes[t]` sentences that are long enough; rows are sorted by
    falling length, so these are always the first ones.

    Attributes:
        rows: (B,) the batch's sentences, longest first.
        step_sizes: (T,) rows alive at each step.
        forward: (N,) places in the ragged batch, step by step, read from the left.
        backward: (N,) the same, every sentence read from its own right end.
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
    # How many rows are longer than t, for every t, without a (T, B) table: a sentence of a million
    # tokens beside a short one must not cost a million rows.
    step_sizes = np.searchsorted(-ordered, -np.arange(ordered[0]), side="left")
    step = np.repeat(np.arange(len(step_sizes)), step_sizes)
    row = np.arange(len(step)) - np.repeat(np.cumsum(step_sizes) - step_sizes, step_sizes)
    forward = starts[row] + step
    backward = starts[row] + ordered[row] - 1 - step
    return TimeMajor(rows, step_sizes, forward, backward)


def plan_batches(
    lengths: Sequence[int] | NDArray[np.int64], batch_tokens: int, batch_size: int | None = None
) -> list[NDArray[np.int64]]:
    """Deal sentences into batches of about `batch_tokens` tokens, longest first.

    Similar lengths go together, so that few time steps run on few rows; the longest come first, so
    that a batch too large for the memory shows itself at once. A sentence longer than the budget is
    a batch of its own.

    Args:
        lengths: tokens of each sentence.
        batch_tokens: most tokens in a batch.
        batch_size: most sentences in a batch; None for no limit.

    Returns:
        Places in `lengths`; every place exactly once.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    most = len(order) if batch_size is None else batch_size
    batches: list[NDArray[np.int64]] = []
    total = np.concatenate([[0], np.cumsum(sizes[order])])
    start = 0
    while start < len(order):
        stop = int(np.searchsorted(total, total[start] + batch_tokens, side="right")) - 1
        stop = min(max(stop, start + 1), start + most)
        batches.append(order[start:stop])
        start = stop
    return batches
