"""Many sentences through a reader: batches by length, results in the order given.

A batch that does not fit into the accelerator's memory is halved and the work goes on, with batches
no larger than the last that fitted. Nothing here waits for a GPU before its results are needed, so
that the host prepares a batch while the GPU computes the one before.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import Argument, ArgumentError, require_at_least
from elmox.inference.finite import can_overflow, require_finite
from elmox.inference.layer_choice import LayerChoice
from elmox.inference.runner import Destination, Reader
from elmox.io.progress import token_bar
from elmox.kernels.derived import weights_fixed
from elmox.kernels.torch_modes import modes_off
from elmox.model.bilm import default_window_tokens
from elmox.model.state import LstmState
from elmox.text.batches import plan_batches, rows_without_bounds

Rows: TypeAlias = NDArray[np.int64]
T = TypeVar("T")

BATCH_TOKENS = {"cpu": 4096, "cuda": 2**18}
MIN_WINDOW = 16


@dataclass(frozen=True)
class BatchOptions:
    """Sizes of batches, and the progress bar; see `TextEncoder.encode_tokens`."""

    batch_size: int | None = None
    batch_tokens: int | None = None
    show_progress_bar: bool | None = False
    num_workers: int = 0

    def __post_init__(self) -> None:
        require_at_least(1, "batch_size", self.batch_size)
        require_at_least(1, "batch_tokens", self.batch_tokens)
        require_at_least(0, "num_workers", self.num_workers)

    def token_budget(self, device: torch.device) -> int:
        """Return the maximum number of tokens per batch on this device."""
        return self.batch_tokens or BATCH_TOKENS.get(device.type, BATCH_TOKENS["cpu"])


@dataclass(frozen=True)
class BatchEncoder:
    """Encodes any number of sentences, batch by batch.

    Attributes:
        reader: the model.
        choice: the layers to return.
        options: sizes of batches.
        start: returns the start state of some rows (indexes of the sentences).
    """

    reader: Reader
    choice: LayerChoice
    options: BatchOptions
    start: Callable[[Rows], LstmState]

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        finish: Callable[[Tensor, Rows], list[T]],
        keep_state: Callable[[Rows, LstmState], None] | None = None,
    ) -> list[T]:
        """Encode sentences.

        Args:
            sentences: tokenized sentences.
            finish: turns a batch, (N, D) or (K, N, D), and the indexes of its sentences into a
                result per sentence.
            keep_state: receives the rows' state after reading. Without it the state after an empty
                sentence has no use, so empty sentences are not read at all.

        Returns:
            The results of `finish`, in the order of `sentences`.
        """
        bilm, lengths = self.reader.bilm, _lengths(sentences)
        results: dict[int, T] = {}
        must_read = np.ones(len(sentences), dtype=bool) if keep_state else lengths > 0
        for row in np.flatnonzero(~must_read).tolist():
            (results[row],) = finish(self._no_tokens(), np.array([row]))

        def into(rows: Rows, device: torch.device) -> Destination:
            num_tokens = lengths[rows]
            total = int(num_tokens.sum())
            shape = (self.choice.num_chosen, total + 1, bilm.config.dim)  # the last row is dropped
            out = torch.empty(shape, device=device, dtype=bilm.dtype)
            first = np.cumsum(num_tokens) - num_tokens
            return Destination(out, rows_without_bounds(num_tokens + 2, first, total))

        flags: list[Tensor] = []
        with modes_off(bilm.device), weights_fixed():
            for rows, out, state in self._read(sentences, np.flatnonzero(must_read), into):
                if keep_state is not None:
                    keep_state(rows, state)
                values = out[0, :-1] if self.choice.single else out[:, :-1]
                if can_overflow(bilm.dtype):
                    flags.append(values.isfinite().all().to(bilm.device))
                results.update(zip(rows.tolist(), finish(values, rows), strict=True))
            if flags:  # all at once, because each check waits for the GPU
                require_finite(torch.stack(flags).all(), "vectors", bilm.dtype)
        return [results[row] for row in range(len(sentences))]

    def encode_rows(self, sentences: Sequence[Sequence[str]], dtype: torch.dtype) -> Tensor:
        """Return all tokens of all sentences in order, (tokens, K, D), on the model's device.

        Args:
            sentences: tokenized sentences.
            dtype: precision to which the vectors are rounded.
        """
        bilm, lengths = self.reader.bilm, _lengths(sentences)
        total, first = int(lengths.sum()), np.cumsum(lengths) - lengths
        shape = (total + 1, self.choice.num_chosen, bilm.config.dim)  # the last row is dropped
        with modes_off(bilm.device), weights_fixed():
            vectors = torch.empty(shape, device=bilm.device, dtype=dtype)

            def into(rows: Rows, device: torch.device) -> Destination:
                indexes = rows_without_bounds(lengths[rows] + 2, first[rows], total)
                return Destination(vectors.transpose(0, 1), indexes)

            for _ in self._read(sentences, np.flatnonzero(lengths), into):
                pass
            return vectors[:-1]

    def _read(
        self,
        sentences: Sequence[Sequence[str]],
        todo: Rows,
        into: Callable[[Rows, torch.device], Destination],
    ) -> Iterator[tuple[Rows, Tensor, LstmState]]:
        """Read some sentences, batch by batch: their rows, the tensor filled, and the state after.

        `into` returns the destination of some rows' vectors, given the device that suits them.
        """
        choice = self.choice.to(self.reader.bilm.device)  # once, not for every window
        limits = _Limits(self.options, self.reader)
        lengths = _lengths(sentences) + 2
        num_tokens = int(lengths[todo].sum())
        with token_bar(num_tokens, self.options.show_progress_bar) as progress:
            for rows in _batches_that_fit(todo, lengths, limits):
                batch = [sentences[row] for row in rows.tolist()]
                try:
                    destination = into(rows, limits.out_device(batch))
                    _, state = self.reader.read(
                        batch, self.start(rows), choice, limits.window_tokens, destination
                    )
                except torch.OutOfMemoryError:
                    limits.exceeded = True
                    continue
                num_read = int(lengths[rows].sum())
                yield rows, destination.out, state
                progress.update(num_read)

    def _no_tokens(self) -> Tensor:
        """Return the vectors of an empty sentence, (0, D) or (K, 0, D)."""
        bilm = self.reader.bilm
        shape = (0, bilm.config.dim)
        return torch.empty(
            shape if self.choice.single else (self.choice.num_chosen, *shape),
            device=bilm.device,
            dtype=bilm.dtype,
        )


def _lengths(sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


class _Limits:
    """Sizes of what is read at a time, lowered when the device's memory proves too small."""

    def __init__(self, options: BatchOptions, reader: Reader) -> None:
        self._device = reader.bilm.device
        self.batch_size = options.batch_size
        self.batch_tokens = options.token_budget(self._device)
        self.window_tokens = default_window_tokens(reader.bilm)
        self.exceeded = False

    def out_device(self, batch: Sequence[Sequence[str]]) -> torch.device:
        """Return main memory for a sentence beyond the budget, which may be of any length."""
        too_long = sum(map(len, batch)) > self.batch_tokens
        return torch.device("cpu") if too_long else self._device

    def lower(self, num_sentences: int, num_tokens: int) -> None:
        """Halve the batch that failed, or the window if it was a single sentence."""
        torch.cuda.empty_cache()
        self.exceeded = False
        if num_sentences > 1:
            self.batch_tokens = max(1, min(self.batch_tokens, num_tokens) // 2)
        elif self.window_tokens > MIN_WINDOW:
            self.window_tokens = min(self.window_tokens, num_tokens) // 2
        else:
            raise ArgumentError(
                "the device has no memory for even {} tokens at a time: free some, or use {}",
                self.window_tokens,
                Argument("device", "cpu"),
            )


def _batches_that_fit(todo: Rows, lengths: NDArray[np.int64], limits: _Limits) -> Iterator[Rows]:
    """Yield batches of `todo`, planned anew whenever the caller reports one as too large."""
    while len(todo):
        plan = plan_batches(lengths[todo], limits.batch_tokens, limits.batch_size)
        for batch in plan:
            rows = todo[batch]
            yield rows
            if limits.exceeded:
                limits.lower(len(rows), int(lengths[rows].sum()))
                break
            lengths[rows] = 0  # done
        todo = todo[lengths[todo] > 0]
