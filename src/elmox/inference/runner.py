"""Sentences of words to chosen layers, a batch at a time: everything between words and vectors.

Used by whatever runs a frozen biLM. Nothing here remembers a sentence: state is passed in and out;
the only memory is the cache of word vectors, which cannot change a result.
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
    """Chosen layers of B sentences, end to end, boundaries included."""

    values: Tensor  # (K, N, D)
    lengths: NDArray[np.int64]  # (B,)


@dataclass(frozen=True)
class Destination:
    """Where the vectors of a batch go: into rows of a tensor, which may be larger than the batch.

    Vectors are rounded to the tensor's precision. Several tokens may name the same row, which then
    holds any one of them: that is how what nobody wants is dropped.
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
    """Run `BiLm.infer` and collect its windows: the chosen layers (K, N, D), and the new state.

    Where a destination is given, its tensor is filled and returned.
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
            where = window.places if rows is None else rows[window.places]
            for direction, places in enumerate(where.to(out.device)):
                halves[:, places, direction] = chosen[:, direction]

        final = bilm.infer(vectors, index, lengths, state, collect, window_tokens)
        return out, final


class Reader:
    """A biLM that reads words."""

    def __init__(self, bilm: BiLm, indexer: WordIndexer, cached_words: int = CACHED_WORDS) -> None:
        self.bilm = bilm
        self.indexer = indexer
        self.cache = WordCache(self._encode, cached_words)
        self._watch = WeightsWatch()

    def zero_state(self, num_rows: int) -> LstmState:
        """The state of rows that have read nothing, on the model's device."""
        return zero_state(self.bilm.config.lstm, num_rows, self.bilm.device, self.bilm.dtype)

    def token_vectors(self, words: Sequence[str]) -> Tensor:
        """Context-independent vectors of distinct words, (U, P), without gradients."""
        encoder = self.bilm.token_encoder
        with modes_off(self.bilm.device):
            version = self._watch.version([*encoder.parameters(), *encoder.buffers()])
            return self.cache.vectors(words, version)

    def clear_cache(self) -> None:
        """Forget everything that was computed from the weights."""
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
            sentences: B tokenized sentences, without boundaries; none may be missing, all may be
                empty (an empty one is its two boundaries).
            state: start state of the B rows.
            choice: the layers wanted.
            window_tokens: tokens in flight at a time; None for what suits the device.
            into: where the vectors go, whose tensor is then all that is returned; None for a tensor
                of their own.
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
        """Read one sentence of any length, handing its vectors over window by window.

        Args:
            sentence: T tokens.
            state: start state of the one row.
            choice: the layers wanted.
            write: called with (tokens, dimensions, vectors (K, n, P)): which part of the (K, T, D)
                result this is. Forward halves come from the left, backward halves from the right.
            window_tokens: tokens in flight at a time.
        """
        batch = index_sentences([sentence], self.indexer.begin, self.indexer.end)
        dim = self.bilm.config.lstm.projection_dim

        def hand_over(window: Window) -> None:
            chosen = choice.apply(window.layers)
            for direction, places in enumerate(window.places):
                vectors = chosen[:, direction]
                ends = int(places[0]), int(places[-1])
                if direction == 1:
                    vectors = vectors.flip(1)
                # Token t stands at place t + 1; the boundaries' places are cut.
                start, stop = max(min(ends) - 1, 0), min(max(ends), len(sentence))
                if start < stop:
                    first = start - (min(ends) - 1)
                    dims = slice(direction * dim, (direction + 1) * dim)
                    write(slice(start, stop), dims, vectors[:, first : first + stop - start])

        vectors = self.token_vectors(batch.words)
        return self.bilm.infer(vectors, batch.index, batch.lengths, state, hand_over, window_tokens)

    def _encode(self, words: Sequence[str]) -> Tensor:
        on_gpu = self.bilm.device.type == "cuda"
        size = WORDS_ENCODED_AT_ONCE_CUDA if on_gpu else WORDS_ENCODED_AT_ONCE
        parts = []
        for start in range(0, len(words), size):
            with computing():
                part = self.indexer(words[start : start + size])
                parts.append(self.bilm.token_encoder(part))
        return torch.cat(parts)
