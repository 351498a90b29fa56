"""Many sentences through a reader: batches by length, results in the order given.

A batch that does not fit into the accelerator's memory is halved and the work goes on, with batches
no larger than what fitted. Nothing here waits for a GPU before its results are asked for, so that
the host prepares a batch while the GPU computes the one before.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import ElmoxError
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

BATCH_TOKENS = {"cpu": 4096, "cuda": 2**18}
LEAST_WINDOW = 16


@dataclass(frozen=True)
class BatchOptions:
    """How the work is cut and what comes back; see `Elmo.encode_tokens`."""

    batch_size: int | None = None
    batch_tokens: int | None = None
    show_progress_bar: bool | None = False
    convert_to_tensor: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ElmoxError(f"{name}={value}: expected at least 1")


def encode_batches(
    reader: Reader,
    sentences: Sequence[Sequence[str]],
    choice: LayerChoice,
    options: BatchOptions,
    start: Callable[[Rows], LstmState],
    finish: Callable[[Any], Any] = lambda vectors: vectors,
    keep_state: Callable[[Rows, LstmState], None] | None = None,
) -> list[Any]:
    """Encode sentences.

    Args:
        reader: the model.
        sentences: tokenized sentences.
        choice: the layers wanted.
        options: how to cut the work.
        start: gives the start state of some rows (places in `sentences`).
        finish: applied to each sentence's vectors, (T, D) or (K, T, D), as soon as they are there.
        keep_state: told the rows' state after reading. Without it nobody can tell what an empty
            sentence did, so empty ones are not read at all.

    Returns:
        What `finish` made, in the order of `sentences`.
    """
    lengths = _lengths(sentences)
    results: list[Any] = [None] * len(sentences)
    read = np.ones(len(sentences), dtype=bool) if keep_state else lengths > 0
    for row in np.flatnonzero(~read):
        results[row] = finish(_empty(reader, choice, options))

    def into(rows: Rows, device: torch.device) -> Destination:
        own = lengths[rows]
        total = int(own.sum())
        shape = (choice.num_chosen, total + 1, reader.bilm.config.dim)  # one more for what is cut
        out = torch.empty(shape, device=device, dtype=reader.bilm.dtype)
        return Destination(out, rows_without_bounds(own + 2, np.cumsum(own) - own, total))

    todo = np.flatnonzero(read)
    dtype = reader.bilm.dtype
    flags: list[Tensor] = []
    with modes_off(reader.bilm.device), weights_fixed():
        for rows, out, state in _read(reader, sentences, todo, choice, options, start, into):
            if keep_state is not None:
                keep_state(rows, state)
            values = out[0, :-1] if choice.single else out[:, :-1]
            if can_overflow(dtype):
                flags.append(values.isfinite().all().to(reader.bilm.device))
            for row, own in zip(rows.tolist(), _split(values, lengths[rows], options), strict=True):
                results[row] = finish(own)
        if flags:  # all at once: a GPU is waited for
            require_finite(torch.stack(flags).all(), "vectors", dtype)
    return results


def encode_rows(
    reader: Reader,
    sentences: Sequence[Sequence[str]],
    choice: LayerChoice,
    options: BatchOptions,
    start: Callable[[Rows], LstmState],
    dtype: torch.dtype,
) -> Tensor:
    """All tokens of all sentences in the order given, (tokens, K, D), on the model's device.

    The arguments are those of `encode_batches`; the vectors are rounded to `dtype`.
    """
    lengths = _lengths(sentences)
    total, first = int(lengths.sum()), np.cumsum(lengths) - lengths
    shape = (total + 1, choice.num_chosen, reader.bilm.config.dim)  # one more for what is cut
    with modes_off(reader.bilm.device), weights_fixed():
        vectors = torch.empty(shape, device=reader.bilm.device, dtype=dtype)

        def into(rows: Rows, device: torch.device) -> Destination:
            places = rows_without_bounds(lengths[rows] + 2, first[rows], total)
            return Destination(vectors.transpose(0, 1), places)

        todo = np.flatnonzero(lengths)
        for _ in _read(reader, sentences, todo, choice, options, start, into):
            pass
        return vectors[:-1]


def _lengths(sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def _read(
    reader: Reader,
    sentences: Sequence[Sequence[str]],
    todo: Rows,
    choice: LayerChoice,
    options: BatchOptions,
    start: Callable[[Rows], LstmState],
    into: Callable[[Rows, torch.device], Destination],
) -> Iterator[tuple[Rows, Tensor, LstmState]]:
    """Read some sentences, batch by batch: their rows, the tensor filled, and the state after.

    `into` says where the vectors of some rows go, given the device that suits them.
    """
    if choice.coefficients is not None:  # there once, not for every window
        choice = replace(choice, coefficients=choice.coefficients.to(reader.bilm.device))
    limits = _Limits(options, reader)
    lengths = _lengths(sentences) + 2
    num_tokens = int(lengths[todo].sum())
    with token_bar(num_tokens, options.show_progress_bar) as progress:
        for rows in _batches_that_fit(todo, lengths, limits):
            batch = [sentences[row] for row in rows.tolist()]
            try:
                destination = into(rows, limits.out_device(batch))
                _, state = reader.read(
                    batch, start(rows), choice, limits.window_tokens, destination
                )
            except torch.OutOfMemoryError:
                limits.exceeded = True
                continue
            read = int(lengths[rows].sum())
            yield rows, destination.out, state
            progress.update(read)


class _Limits:
    """How much is read at a time. Lowered when the device's memory proves too small."""

    def __init__(self, options: BatchOptions, reader: Reader) -> None:
        self._device = reader.bilm.device
        self.batch_size = options.batch_size
        self.batch_tokens = options.batch_tokens or BATCH_TOKENS.get(self._device.type, 4096)
        self.window_tokens = default_window_tokens(reader.bilm)
        self.exceeded = False

    def out_device(self, batch: Sequence[Sequence[str]]) -> torch.device:
        """A sentence beyond the budget may be of any length: its vectors go to main memory."""
        too_long = sum(map(len, batch)) > self.batch_tokens
        return torch.device("cpu") if too_long else self._device

    def lower(self, num_sentences: int, num_tokens: int) -> None:
        """Halve the batch that failed, or the window if it was a single sentence."""
        torch.cuda.empty_cache()
        self.exceeded = False
        if num_sentences > 1:
            self.batch_tokens = max(1, min(self.batch_tokens, num_tokens) // 2)
        elif self.window_tokens > LEAST_WINDOW:
            self.window_tokens = min(self.window_tokens, num_tokens) // 2
        else:
            raise ElmoxError(
                f"the device has no memory for even {self.window_tokens} tokens at a time: free "
                "some, or use device='cpu'"
            )


def _batches_that_fit(todo: Rows, lengths: NDArray[np.int64], limits: _Limits) -> Iterator[Rows]:
    """Batches of `todo`, planned anew whenever the caller found one too large."""
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


def _split(values: Tensor, lengths: NDArray[np.int64], options: BatchOptions) -> list[Any]:
    """Each sentence's own vectors, from those of a batch, (N, D) or (K, N, D).

    Arrays are copies, each of which can be forgotten by itself. Tensors are views of their batch:
    a launch for each would take a GPU longer than to compute them.
    """
    if options.convert_to_tensor:
        return list(torch.split_with_sizes(values, lengths.tolist(), dim=-2))
    array = values.float().cpu().numpy()
    ends = np.cumsum(lengths)
    slices = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return [array[..., begin:end, :].copy() for begin, end in slices]


def _empty(reader: Reader, choice: LayerChoice, options: BatchOptions) -> Any:
    shape = (0, reader.bilm.config.dim)
    vectors = torch.empty(
        shape if choice.single else (choice.num_chosen, *shape),
        device=reader.bilm.device,
        dtype=reader.bilm.dtype,
    )
    return vectors if options.convert_to_tensor else vectors.float().cpu().numpy()
