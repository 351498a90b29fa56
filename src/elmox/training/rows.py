"""Rows of running text, packed without padding: the input of a training step, as in bilm-tf.

A corpus is a stream of words with a mark after each sentence. Closed to a ring it has no ends:

    forward  at position i reads ring[i-1] and predicts ring[i]      (a mark is read as <S>)
    backward at position i reads ring[i]   and predicts ring[i-1]    (a mark is predicted as <S>)

So a sentence of n words has n+1 positions in each direction, and a boundary is never predicted from
a boundary. Every epoch joins the shards in another order, rotates the ring by another offset and
cuts it into one segment per row. The forward stream reads a segment from the left, the backward
stream from the right. A row's position follows from the step's number alone, so that a run can be
resumed on any number of processes without stored positions.

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
    """Return the rows of one process: consecutive, and as evenly distributed as possible."""
    return np.arange(num_rows * rank // num_processes, num_rows * (rank + 1) // num_processes)


def pinned(batch: "Batch") -> "Batch":
    """Return the batch in page-locked memory, from which a GPU copies while the host continues.

    Each array starts where its memory does, by which torch recognizes the memory: it is reused only
    when pending copies are done, even if the array is deleted before.
    """
    table = batch.table
    spelling = table.spelling
    if spelling is not None:
        spelling = Spelling(_pinned(spelling.ids), spelling.lengths)  # lengths stay on the host
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
    """Return `np.unique` and its inverse without sorting: (U,) ids, and indices into them."""
    seen = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
    seen[ids] = True
    distinct = np.flatnonzero(seen)
    indices = np.empty(len(seen), dtype=np.int64)
    indices[distinct] = np.arange(len(distinct))
    return distinct, indices[ids]


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
    """The text of some rows at one step."""

    words: NDArray[np.int64]  # (U,) distinct lexicon ids, rising
    table: WordTable  # the same words as input of the token encoder
    inputs: NDArray[np.int64]  # (D, T, B) indices into `words`
    targets: NDArray[np.int64]  # (D, T, B) ids in the softmax vocabulary
    kept: NDArray[np.bool_] | None = None  # (B,) rows that keep their state; the others reset it

    def pin_memory(self) -> "Batch":
        """Call `pinned`; torch's loader expects this method."""
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
        """Describe the rows of a stream.

        Args:
            stream: the corpus.
            table: maps distinct lexicon ids to the input of the token encoder.
            num_rows: number of rows of all processes.
            num_steps: tokens of a row per step.
            vocab_size: size of the softmax vocabulary; targets beyond it are unknown words.
            num_directions: 1 or 2.
            seed: of the order of shards, the offsets and the resets.
            reset: share of rows that start a step from zero state.
            reset_at: with "sentence", such a row reads its window from the nearest sentence
                boundary on, as isolated sentences are read when they are embedded.
        """
        self._stream, self._table = stream, table
        self._num_rows, self._num_steps = num_rows, num_steps
        self._vocab_size, self._num_directions = vocab_size, num_directions
        self._seed, self._reset, self._reset_at = seed, reset, reset_at
        # A text shorter than one step is read repeatedly.
        self.steps_per_epoch = max(1, stream.num_positions // (num_rows * num_steps))
        self._epoch_stream = lru_cache(maxsize=2)(self._join_shards)

    def read(self, step: int, rows: NDArray[np.int64]) -> Batch:
        """Return the text of some rows at a step (counted from 0)."""
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
        positions = np.stack([left - 1 + along, right - 1 - along][: self._num_directions])
        # Position i of the ring is position i + 1 of the stream.
        tokens = stream.gather(positions % stream.num_positions + 1)
        inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
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
        """Yield the text of consecutive steps, in pieces of rows; one step is read ahead.

        The thread that reads ahead also calls `prepare` on each batch.
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
        """Return which rows keep their state, drawn by their global numbers."""
        if self._reset == 0:
            return None
        key = mixed_seed("reset", self._seed, step)
        numbers = torch.from_numpy(rows)
        kept: NDArray[np.bool_] = dropout_mask(
            numbers.shape, self._reset, key, numbers, row_dim=0
        ).numpy()
        return kept

    def _join_shards(self, epoch: int) -> tuple[TokenStream, int]:
        """Return the shards in this epoch's order, and the offset of the ring."""
        shards = range(self._stream.num_shards)
        order = sorted(shards, key=lambda shard: mixed_seed("shards", self._seed, epoch, shard))
        stream = self._stream.permuted(order)
        return stream, mixed_seed("offset", self._seed, epoch) % stream.num_positions
