"""Chunks of lines to rows of vectors.

Lines are embedded in chunks, large enough to batch by length and small enough for memory. A line
larger than a chunk is written piece by piece into reserved space.

The last bits of a vector depend on the batch that it is computed in, and on the words that were
encoded with its words. Both depend on the text and the options alone: a chunk consists of lines of
one block (`text.lines.block_starts`), and the cache of words is empty at the beginning of a block.
So every process that computes a block gets the same bits.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.encode import BatchEncoder, BatchOptions
from elmox.inference.finite import can_overflow, require_finite
from elmox.inference.layer_choice import LayerChoice
from elmox.io.background import Background
from elmox.text.batches import in_chunks
from elmox.text.lines import Line
from elmox.vectors.files import VectorWriter
from elmox.vectors.jsonl import line_record
from elmox.vectors.layout import Array, Layout
from elmox.vectors.parts import NO_RECORD, Entry, Parts

CHUNK_BYTES = 2**25  # float32 vectors held at a time
CHUNK_BYTES_CUDA = 2**29  # bytes in the file; twice as many are held, to keep a GPU busy


def chunk_tokens(layout: Layout, device: torch.device) -> int:
    """Return the maximum number of tokens of a chunk."""
    if device.type == "cuda":
        return max(1, CHUNK_BYTES_CUDA // layout.row_bytes)
    return max(1, CHUNK_BYTES // (4 * layout.row_values))


def blocks_of(lines: Iterable[Line], size: int) -> Iterator[Iterator[Line]]:
    """Group consecutive lines of the same block."""
    for _, block in groupby(lines, key=lambda line: line.start // size):
        yield block


def _chunks(lines: Iterable[Line], max_tokens: int) -> Iterator[list[Line]]:
    """Group consecutive lines up to `max_tokens` tokens; a larger line is its own group."""
    # An empty line counts as a token, so that a file of blank lines does not fill the memory.
    return in_chunks(lines, lambda line: line.num_tokens + 1, max_tokens)


def _records(lines: Sequence[Line], first: int) -> list[bytes]:
    """Return the record of each line; `first` is the index of the first one."""
    records = []
    for index, line in enumerate(lines, start=first):
        try:
            records.append(line_record(line))
        except ElmoxError as error:
            raise ElmoxError(f"line {index + 1}: {error}") from error
    return records


def _fetch(rows: Tensor, check: Callable[[Tensor], None] | None) -> Callable[[], Array]:
    """Start copying a tensor to main memory; the returned function waits for it.

    `check` is then called with whether all its values are finite.
    """
    flag = None if check is None else rows.isfinite().all()
    if rows.device.type != "cuda":
        host, arrived = rows.cpu(), None
    else:
        host = rows.to("cpu", non_blocking=True)  # into pinned memory
        flag = None if flag is None else flag.to("cpu", non_blocking=True)
        arrived = torch.cuda.current_stream(rows.device).record_event()

    def wait() -> Array:
        if arrived is not None:
            arrived.synchronize()
        if check is not None and flag is not None:
            check(flag)
        return host.numpy()

    return wait


class ChunkEmbedder:
    """Turns chunks of lines into entries.

    Attributes:
        chunk_tokens: maximum number of tokens of a chunk.
    """

    def __init__(
        self, elmo: Elmo, choice: LayerChoice, layout: Layout, batch_tokens: int | None
    ) -> None:
        self._elmo = elmo
        self._choice = choice
        self._dtype: torch.dtype = getattr(torch, layout.dtype)
        self._can_overflow = can_overflow(self._dtype) or can_overflow(elmo.reader.bilm.dtype)
        self._options = BatchOptions(batch_tokens=batch_tokens)
        self.chunk_tokens = chunk_tokens(layout, elmo.device)

    def embed_block(
        self,
        block: Iterable[Line],
        first: int,
        num_done: int,
        writer: VectorWriter | Parts,
        background: Background,
    ) -> Iterator[tuple[Line, int, int]]:
        """Embed the lines of a block and start writing them, except the first `num_done`.

        Args:
            block: the lines.
            first: the index of the first of them.
            num_done: number of lines that an earlier run has written. They are embedded, because
                what follows depends on them to the last bit, and not written.
            writer: the output.
            background: writes while the next chunk is embedded.

        Yields:
            For each chunk its last line, and the numbers of new lines and of their tokens.
        """
        self._elmo.reader.cache.clear()
        for chunk in _chunks(block, self.chunk_tokens):
            num_again = min(num_done, len(chunk))
            num_tokens = self._embed(chunk, first, num_again, writer, background)
            yield chunk[-1], len(chunk) - num_again, num_tokens
            first += len(chunk)
            num_done -= num_again

    def _embed(
        self,
        chunk: list[Line],
        first: int,
        num_done: int,
        writer: VectorWriter | Parts,
        background: Background,
    ) -> int:
        """Embed a chunk; return the number of tokens of the lines that are written."""
        lengths = np.array([line.num_tokens for line in chunk])
        new, new_lengths = chunk[num_done:], lengths[num_done:]
        if lengths[0] > self.chunk_tokens:
            if new:
                background.wait()
                records = _records(new, first) if writer.needs_records else [NO_RECORD]
                self._embed_large(chunk[0], writer.reserve(int(lengths[0]), records[0]))
            # Also if nothing was computed, what follows is the same.
            self._elmo.reader.cache.clear()
            return int(new_lengths.sum())
        rows = self._start([sentence for line in chunk for sentence in line.sentences])
        start = int(lengths[:num_done].sum())

        def write() -> None:
            records = _records(new, first + num_done) if writer.needs_records else None
            writer.append_rows(rows()[start:], new_lengths, records)

        if new:
            background.submit(write)
        return int(new_lengths.sum())

    def _start(self, sentences: list[list[str]]) -> Callable[[], Array]:
        """Start to embed sentences; the returned function waits for their rows, (tokens, K, D)."""
        elmo = self._elmo
        encoder = BatchEncoder(
            elmo.reader, self._choice, self._options, lambda batch: elmo.start_state(len(batch))
        )
        rows = encoder.encode_rows(sentences, self._dtype)
        return _fetch(rows, self._check if self._can_overflow else None)

    def _check(self, is_finite: bool | Tensor) -> None:
        """Raise an `ElmoxError` if vectors exceed the range of a precision."""
        dtype = self._elmo.reader.bilm.dtype
        if can_overflow(dtype):
            require_finite(is_finite, "vectors", dtype)
        elif not is_finite:
            name = str(self._dtype).removeprefix("torch.")
            largest = torch.finfo(self._dtype).max
            raise ElmoxError(
                f"vectors have values beyond {largest:,.0f}, the largest of {name}: store them "
                "with dtype='float32'"
            )

    def _embed_large(self, line: Line, entry: Entry) -> None:
        """Fill the entry of a line that does not fit into a chunk, sentence by sentence."""
        start = 0
        for group in _chunks((Line([sentence]) for sentence in line.sentences), self.chunk_tokens):
            sentences = [sentence for part in group for sentence in part.sentences]
            num_tokens = sum(map(len, sentences))
            if num_tokens <= self.chunk_tokens:
                entry.write_rows(start, self._start(sentences)())
            else:
                self._embed_long_sentence(sentences[0], entry, start)
            start += num_tokens

    def _embed_long_sentence(self, sentence: list[str], entry: Entry, start: int) -> None:
        choice = self._choice

        def write(tokens: slice, dims: slice, vectors: Tensor) -> None:
            if self._can_overflow:
                self._check(vectors.to(self._dtype).isfinite().all())
            values: NDArray[np.float32] = vectors.float().cpu().numpy()
            where = slice(start + tokens.start, start + tokens.stop)
            entry[..., where, dims] = values[0] if choice.single else values

        self._elmo.reader.read_long(sentence, self._elmo.start_state(1), choice, write)
