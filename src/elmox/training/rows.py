"""Rows of running text, packed without padding: what a training step reads (bilm-tf's batching).

A corpus is a stream of words with a mark after each sentence. Bent into a ring it has no ends:

    forward  at place i reads ring[i-1] and predicts ring[i]      (a mark is read as <S>)
    backward at place i reads ring[i]   and predicts ring[i-1]    (a mark is predicted as <S>)

So a sentence of n words has n+1 places in each direction, and a boundary is never predicted from a
boundary. Every epoch joins the shards in another order, turns the ring by another offset and cuts
it into one segment a row; the forward stream walks a segment from the left, the backward stream
from the right. Where a row stands follows from the step's number alone, so nothing needs to be
remembered to go on, on any number of processes.

Shapes: D directions, T steps, B rows, U distinct words.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.kernels.dropout.plain import dropout_mask
from elmox.text.chars import Spelling
from elmox.text.vocab import BEGIN_ID, END_ID, UNKNOWN_ID
from elmox.text.words import WordTable
from elmox.training.corpus.corpus import TokenStream
from elmox.training.keys import mixed_seed

ResetAt: TypeAlias = Literal["anywhere", "sentence"]
Number = TypeVar("Number", bound=np.generic)

BOUNDARY_SEARCH = 64  # positions; a row in a longer sentence restarts in the middle of it


def deal_rows(num_rows: int, rank: int, num_processes: int) -> NDArray[np.int64]:
    """The rows of one process: consecutive ones, as evenly as they go."""
    return np.arange(num_rows * rank // num_processes, num_rows * (rank + 1) // num_processes)


def pinned(batch: "Batch") -> "Batch":
    """The same text in page-locked memory, from which a GPU copies while the host goes on.

    Each array begins where its memory does, by which torch knows the memory again: it is given to
    another array only when the copies that were asked for are made, however soon this one goes.
    """
    table = batch.table
    spelling = table.spelling
    if spelling is not None:
        spelling = Spelling(_pinned(spelling.ids), spelling.lengths)  # lengths are the host's
    return replace(
        batch,
        table=WordTable(spelling, None if table.ids is None else _pinned(table.ids)),
        inputs=_pinned(batch.inputs),
        targets=_pinned(batch.targets),
        kept=None if batch.kept is None else _pinned(batch.kept),
    )


def _pinned(array: NDArray[Number]) -> NDArray[Number]:
    copy: NDArray[Number] = torch.from_numpy(array).pin_memory().numpy()
    return copy


def _distinct(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `np.unique` finds with its inverse, without sorting: (U,) ids, places among them."""
    seen = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
    seen[ids] = True
    distinct = np.flatnonzero(seen)
    places = np.empty(len(seen), dtype=np.int64)
    places[distinct] = np.arange(len(distinct))
    return distinct, places[ids]


def _boundary_distance(
    stream: TokenStream, starts: NDArray[np.int64], direction: int
) -> NDArray[np.int64]:
    """Return the distance (R,) from each ring position to the nearest boundary; 0 if it is far."""
    searched = starts[:, None] + direction * np.arange(BOUNDARY_SEARCH)
    is_boundary = stream.gather(searched % stream.num_positions + 1) == END_ID
    distance: NDArray[np.int64] = is_boundary.argmax(1)
    return distance


@dataclass(frozen=True)
class Batch:
    """One step's text, for some rows."""

    words: NDArray[np.int64]  # (U,) distinct lexicon ids, rising
    table: WordTable  # the same as the token encoder reads them
    inputs: NDArray[np.int64]  # (D, T, B) places in `words`
    targets: NDArray[np.int64]  # (D, T, B) ids in the softmax vocabulary
    kept: NDArray[np.bool_] | None = None  # (B,) rows that go on; the others begin from nothing

    def pin_memory(self) -> "Batch":
        """See `pinned`; torch's loader asks for this method."""
        return pinned(self)


class Rows:
    """The text of every step."""

    def __init__(
        self,
        stream: TokenStream,
        table: Callable[[NDArray[np.int64]], WordTable],
        *,
        num_rows: int,
        num_steps: int,
        vocab_size: int,
        num_directions: int,
        seed: int,
        reset: float = 0.0,
        reset_at: ResetAt = "anywhere",
    ) -> None:
        """`table` gives what the token encoder reads of distinct lexicon ids.

        `reset` is the share of rows that start a step from zero state; with `reset_at` "sentence"
        such a row reads its window from the nearest sentence boundary on, as an isolated sentence
        is read when it is embedded.
        """
        self._stream, self._table = stream, table
        self._num_rows, self._num_steps = num_rows, num_steps
        self._vocab_size, self._num_directions = vocab_size, num_directions
        self._seed, self._reset, self._reset_at = seed, reset, reset_at
        # A text shorter than one step is read round and round.
        self.steps_per_epoch = max(1, stream.num_positions // (num_rows * num_steps))
        self._epoch_stream = lru_cache(maxsize=2)(self._join_shards)

    def read(self, step: int, rows: NDArray[np.int64]) -> Batch:
        """The text that some rows read at a step (counted from 0)."""
        epoch, within = divmod(step, self.steps_per_epoch)
        stream, offset = self._epoch_stream(epoch)
        window = self._num_steps
        length = self.steps_per_epoch * window  # of a row's segment
        left = offset + rows * length + within * window
        right = offset + (rows + 1) * length - within * window
        kept = self._kept(step, rows)
        if kept is not None and self._reset_at == "sentence":
            left[~kept] -= _boundary_distance(stream, left[~kept] - 1, -1)
            right[~kept] += _boundary_distance(stream, right[~kept] - 1, 1)
        along = np.arange(window + 1)[:, None]
        places = np.stack([left - 1 + along, right - 1 - along][: self._num_directions])
        passed = stream.gather(places % stream.num_positions + 1)  # place i of the ring is i + 1
        inputs, targets = passed[:, :-1].copy(), passed[:, 1:].copy()
        inputs[0][inputs[0] == END_ID] = BEGIN_ID
        targets[1:][targets[1:] == END_ID] = BEGIN_ID
        targets[targets >= self._vocab_size] = UNKNOWN_ID
        words, index = _distinct(inputs)
        return Batch(words, self._table(words), index, targets, kept)

    def batches(
        self,
        start: int,
        stop: int,
        pieces: Sequence[NDArray[np.int64]],
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> Iterator[list[Batch]]:
        """The text of consecutive steps, in pieces of rows; one step is always read ahead.

        The thread that reads ahead also does what `prepare` says.
        """

        def read(step: int) -> list[Batch]:
            return [prepare(self.read(step, rows)) for rows in pieces]

        with ThreadPoolExecutor(max_workers=1) as reader:
            ahead = reader.submit(read, start)
            for step in range(start, stop):
                batches = ahead.result()
                if step + 1 < stop:
                    ahead = reader.submit(read, step + 1)
                yield batches

    def _kept(self, step: int, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which rows go on depends on their global numbers."""
        if self._reset == 0:
            return None
        key = mixed_seed("reset", self._seed, step)
        numbers = torch.from_numpy(rows)
        kept: NDArray[np.bool_] = dropout_mask(
            numbers.shape, self._reset, key, numbers, row_dim=0
        ).numpy()
        return kept

    def _join_shards(self, epoch: int) -> tuple[TokenStream, int]:
        """The shards in this epoch's order, and how far the ring is turned."""
        shards = range(self._stream.num_shards)
        order = sorted(shards, key=lambda shard: mixed_seed("shards", self._seed, epoch, shard))
        stream = self._stream.permuted(order)
        return stream, mixed_seed("offset", self._seed, epoch) % stream.num_positions
