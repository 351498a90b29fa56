"""Many sentences through a reader: batches by length, results in the order given.

A batch that does not fit into the accelerator's memory is halved and the work goes on, with batches
no larger than what fitted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from elmox.errors import ElmoxError
from elmox.model.bilm import default_window_tokens
from elmox.model.layer_choice import LayerChoice
from elmox.model.reader import RaggedVectors, Reader
from elmox.model.state import LstmState
from elmox.text.batches import plan_batches

Rows: TypeAlias = NDArray[np.int64]

BATCH_TOKENS = {"cpu": 4096, "cuda": 2**16}
LEAST_WINDOW = 16


@dataclass(frozen=True)
class BatchOptions:
    """How the work is cut and what comes back; see `Elmo.encode_tokens`."""

    batch_size: int | None = None
    batch_tokens: int | None = None
    show_progress_bar: bool = False
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
        sentences: tokenised sentences.
        choice: the layers wanted.
        options: how to cut the work.
        start: gives the start state of some rows (places in `sentences`).
        finish: applied to each sentence's vectors, (T, D) or (K, T, D), as soon as they are there.
        keep_state: told the rows' state after reading. Without it nobody can tell what an empty
            sentence did, so empty ones are not read at all.

    Returns:
        What `finish` made, in the order of `sentences`.
    """
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    results: list[Any] = [None] * len(sentences)
    read = np.ones(len(sentences), dtype=bool) if keep_state else lengths > 0
    for row in np.flatnonzero(~read):
        results[row] = finish(_empty(reader, choice, options))
    todo = np.flatnonzero(read)
    limits = _Limits(options, reader)
    with tqdm(total=len(todo), unit="sentence", disable=not options.show_progress_bar) as progress:
        for rows in _batches_that_fit(todo, lengths + 2, limits):
            batch = [sentences[row] for row in rows]
            try:
                vectors, state = reader.read(
                    batch, start(rows), choice, limits.window_tokens, limits.out_device(batch)
                )
            except torch.OutOfMemoryError:
                limits.exceeded = True
                continue
            if keep_state is not None:
                keep_state(rows, state)
            for row, own in zip(rows.tolist(), _split(vectors, choice, options), strict=True):
                results[row] = finish(own)
            progress.update(len(rows))
    return results


class _Limits:
    """How much is read at a time. Lowered when the device's memory proves too small."""

    def __init__(self, options: BatchOptions, reader: Reader) -> None:
        bilm = reader.bilm
        self.batch_size = options.batch_size
        self.batch_tokens = options.batch_tokens or BATCH_TOKENS.get(bilm.device.type, 4096)
        self.window_tokens = default_window_tokens(bilm.config, bilm.device, bilm.dtype)
        self.exceeded = False

    def out_device(self, batch: Sequence[Sequence[str]]) -> torch.device | None:
        """A sentence beyond the budget may be of any length: its vectors go to main memory."""
        too_long = sum(map(len, batch)) > self.batch_tokens
        return torch.device("cpu") if too_long else None

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


def _split(ragged: RaggedVectors, choice: LayerChoice, options: BatchOptions) -> list[Any]:
    """Each sentence's own vectors, as a copy that does not hold the whole batch in memory."""
    values = ragged.values[0] if choice.single else ragged.values
    if options.convert_to_tensor:
        return [values[..., where, :].clone() for where in ragged.sentence_slices()]
    array = values.float().cpu().numpy()
    return [array[..., where, :].copy() for where in ragged.sentence_slices()]


def _empty(reader: Reader, choice: LayerChoice, options: BatchOptions) -> Any:
    shape = (0, reader.bilm.config.dim)
    vectors = torch.empty(
        shape if choice.single else (choice.num_chosen, *shape),
        device=reader.bilm.device,
        dtype=reader.bilm.dtype,
    )
    return vectors if options.convert_to_tensor else vectors.float().cpu().numpy()
