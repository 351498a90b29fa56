"""Sentences of words to selected layers, a batch at a time: everything between words and vectors.

Nothing here remembers a sentence: state is passed in and returned. The only memory is the cache of
word vectors, which changes no result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.layer_choice import LayerChoice
from elmox.inference.word_cache import WordCache
from elmox.io.transfer import to_device
from elmox.kernels.derived import WeightsWatch
from elmox.kernels.fork_gate import computing
from elmox.kernels.torch_modes import modes_off
from elmox.model.bilm import BiLm, Window
from elmox.model.state import LstmState, zero_state
from elmox.text.batches import index_sentences
from elmox.text.words import WordIndexer

CACHED_WORDS = 2**15
WORDS_ENCODED_AT_ONCE = 1024
WORDS_ENCODED_AT_ONCE_CUDA = 2**14


@dataclass(frozen=True)
class RaggedVectors:
    """Selected layers of B sentences, one after the other, boundaries included."""

    values: Tensor  # (K, N, D)
    lengths: NDArray[np.int64]  # (B,)


@dataclass(frozen=True)
class Destination:
    """Rows of a tensor that receive the vectors of a batch; there may be more rows than tokens.

    Vectors are rounded to the tensor's precision. If several tokens have the same row, it receives
    any one of them: that is how vectors are dropped.
    """

    out: Tensor  # (K, M, D), on any device, of any strides
    rows: NDArray[np.int64]  # (N,) the row of each token of the batch


def infer_layers(
    bilm: BiLm,
    vectors: Tensor,
    index: NDArray[np.int64],
    lengths: NDArray[np.int64],
    state: LstmState,
    choice: LayerChoice,
    window_tokens: int | None = None,
    into: Destination | None = None,
) -> tuple[Tensor, LstmState]:
    """Run `BiLm.infer` and collect its windows.

    Returns:
        The selected layers (K, N, D), or the tensor of the destination; and the new state.
    """
    with modes_off(vectors.device):
        config = bilm.config
        if into is None:
            shape = (choice.num_chosen, len(index), config.dim)
            out, rows = torch.empty(shape, device=vectors.device, dtype=vectors.dtype), None
        else:
            out, rows = into.out, to_device(into.rows, vectors.device)
        halves = out.view(*out.shape[:2], config.lstm.num_directions, -1)

        def collect(window: Window) -> None:
            chosen = choice.apply(window.layers).to(out.device, out.dtype)
            indexes = window.positions if rows is None else rows[window.positions]
            for direction, index in enumerate(indexes.to(out.device)):
                halves[:, index, direction] = chosen[:, direction]

        final = bilm.infer(vectors, index, lengths, state, collect, window_tokens)
        return out, final


class Reader:
    """A biLM that reads words."""

    def __init__(self, bilm: BiLm, indexer: WordIndexer, cached_words: int = CACHED_WORDS) -> None:
        self.bilm = bilm
        self.indexer = indexer
        # Not a method of this object: in a cycle, its memory would wait for the garbage collector.
        self.cache = WordCache(_WordEncoder(bilm, indexer), cached_words)
        self._watch = WeightsWatch()

    def zero_state(self, num_rows: int) -> LstmState:
        """Return the state of rows that have read nothing, on the model's device."""
        return zero_state(self.bilm.config.lstm, num_rows, self.bilm.device, self.bilm.dtype)

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """Return context-independent vectors of distinct words, (U, P), without gradients."""
        encoder = self.bilm.token_encoder
        with modes_off(self.bilm.device):
            version = self._watch.version([*encoder.parameters(), *encoder.buffers()])
            return self.cache.vectors(words, version)

    def clear_cache(self) -> None:
        """Discard everything that was computed from the weights."""
        self.cache.clear()
        self._watch.clear()
        self.bilm.clear_derived()

    def read(
        self,
        sentences: Sequence[Sequence[str]],
        state: LstmState,
        choice: LayerChoice,
        window_tokens: int | None = None,
        into: Destination | None = None,
    ) -> tuple[RaggedVectors, LstmState]:
        """Read a batch.

        Args:
            sentences: B tokenized sentences, without boundaries, B > 0; an empty one is read as its
                two boundaries.
            state: start state of the B rows.
            choice: the layers to return.
            window_tokens: tokens in flight at a time; None for a default of the device.
            into: the destination of the vectors, whose tensor is then returned; None for a new one.
        """
        batch = index_sentences(sentences, self.indexer.begin, self.indexer.end)
        vectors = self.token_vectors(batch.words)
        values, final = infer_layers(
            self.bilm, vectors, batch.index, batch.lengths, state, choice, window_tokens, into
        )
        return RaggedVectors(values, batch.lengths), final

    def read_long(
        self,
        sentence: Sequence[str],
        state: LstmState,
        choice: LayerChoice,
        write: Callable[[slice, slice, Tensor], None],
        window_tokens: int | None = None,
    ) -> LstmState:
        """Read one sentence of any length, passing its vectors on window by window.

        Args:
            sentence: T tokens.
            state: start state of the one row.
            choice: the layers to return.
            write: called with (tokens, dimensions, vectors (K, n, P)), the part of the (K, T, D)
                result that this is. Forward halves come from the left, backward halves from the
                right.
            window_tokens: tokens in flight at a time.
        """
        batch = index_sentences([sentence], self.indexer.begin, self.indexer.end)
        dim = self.bilm.config.lstm.projection_dim

        def pass_on(window: Window) -> None:
            chosen = choice.apply(window.layers)
            for direction, positions in enumerate(window.positions):
                vectors = chosen[:, direction]
                ends = int(positions[0]), int(positions[-1])
                if direction == 1:
                    vectors = vectors.flip(1)
                # Token t has position t + 1; the boundaries are cut.
                start, stop = max(min(ends) - 1, 0), min(max(ends), len(sentence))
                if start < stop:
                    first = start - (min(ends) - 1)
                    dims = slice(direction * dim, (direction + 1) * dim)
                    write(slice(start, stop), dims, vectors[:, first : first + stop - start])

        vectors = self.token_vectors(batch.words)
        return self.bilm.infer(vectors, batch.index, batch.lengths, state, pass_on, window_tokens)


@dataclass(frozen=True)
class _WordEncoder:
    """Encodes words that are not in the cache."""

    bilm: BiLm
    indexer: WordIndexer

    def __call__(self, words: Sequence[str]) -> Tensor:
        """Return context-independent vectors, (U, P)."""
        on_gpu = self.bilm.device.type == "cuda"
        size = WORDS_ENCODED_AT_ONCE_CUDA if on_gpu else WORDS_ENCODED_AT_ONCE
        parts = []
        for start in range(0, len(words), size):
            with computing():
                part = self.indexer(words[start : start + size])
                parts.append(self.bilm.token_encoder(part))
        return torch.cat(parts)
