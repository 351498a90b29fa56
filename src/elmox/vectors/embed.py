"""A text file, or sentences, to a file of vectors: streaming, in bounded memory, safe to kill.

Lines are read in chunks, large enough to batch by length and small enough for memory. A line larger
than a chunk is written piece by piece into reserved space. A chunk is converted to the bytes of the
file on the device, and written while the next one is computed. Entries go through a `VectorWriter`,
so that an interrupted run continues where its last closed part ended.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.encode import BatchEncoder, BatchOptions
from elmox.inference.finite import can_overflow, require_finite
from elmox.inference.layer_choice import LayerChoice, Layers, choose_layers
from elmox.io.background import Background, background_thread
from elmox.kernels.derived import weights_fixed
from elmox.text.batches import in_chunks
from elmox.text.inputs import Text
from elmox.text.lines import Line
from elmox.vectors.files import VectorWriter, open_writer
from elmox.vectors.inputs import FileInput, Input, SentenceInput
from elmox.vectors.jsonl import line_record
from elmox.vectors.layout import Array, DType, Layout
from elmox.vectors.parts import NO_RECORD, PART_BYTES, Entry

CHUNK_BYTES = 2**25  # float32 vectors held at a time
CHUNK_BYTES_CUDA = 2**29  # bytes in the file; twice as many are held, to keep a GPU busy
# Closing a part waits for the disk four times, which a GPU would notice with smaller parts.
PART_BYTES_CUDA = 2**28


@dataclass(frozen=True)
class Summary:
    """Counts and timing of one run of `embed_file` or `embed_sentences`.

    Attributes:
        num_lines: entries in the output.
        num_resumed: the number of these that an interrupted run had written before.
        num_tokens: tokens that this run embedded.
        seconds: duration of this run.
        was_complete: whether the output was complete before this run.
    """

    num_lines: int
    num_resumed: int
    num_tokens: int
    seconds: float
    was_complete: bool = False


@dataclass(frozen=True)
class _Options:
    """The options that `embed_file` and `embed_sentences` share; described there."""

    layers: Layers
    dtype: DType
    force: bool
    batch_tokens: int | None
    part_bytes: int | None
    show_progress_bar: bool


def embed_file(
    elmo: Elmo,
    source: str | Path,
    output: str | Path,
    *,
    layers: Layers = "all",
    dtype: DType = "float32",
    tokenized: bool = False,
    force: bool = False,
    batch_tokens: int | None = None,
    part_bytes: int | None = None,
    show_progress_bar: bool = False,
) -> Summary:
    """Embed every line of a text file and write the vectors to a file.

    Entry i of the output holds the vectors of line i; an empty line is an empty entry. The input is
    streamed, so neither file has to fit into memory. The output appears under its name only when it
    is complete. After an interruption, the same call continues where the last one stopped; when
    everything is done, it returns at once.

        embed_file(elmo, "corpus.txt", "corpus.hdf5", layers="average", dtype="float16")
        vectors = open_vectors("corpus.hdf5")
        vectors[0]  # line 1, (T, D)

    Args:
        elmo: the model.
        source: a text file, a .jsonl file, or - for stdin, which cannot be resumed. Files may be
            compressed.
        output: the output; its suffix selects the format (see `elmox.vectors.formats`). JSON lines
            have tokens and character offsets next to the vectors, but `open_vectors` does not read
            them, and a finished file is not recognized: the same call raises an error.
        layers: the layers to store, as in `Elmo.encode_tokens`; all of them by default.
        dtype: data type on disk.
        tokenized: lines are sentences of tokens with white space between them. By default they are
            running text, which the model's own tokenizer splits. In JSON lines, the key "tokens" or
            "text" decides instead.
        force: replace an existing output, and discard an unfinished one of another job.
        batch_tokens: maximum number of tokens per batch; None for a default of the device.
        part_bytes: size of a part, which is the most work that an interruption can cost, and the
            size of npy shards. 64 MB by default, 256 MB on a GPU.
        show_progress_bar: show a bar on stderr.

    Returns:
        Counts and timing of this run.

    Raises:
        ElmoxError: if a line cannot be read, if the output exists already, or if an unfinished
            output belongs to another job.
    """
    options = _Options(layers, dtype, force, batch_tokens, part_bytes, show_progress_bar)
    return _embed_lines(elmo, FileInput(elmo, str(source), tokenized), output, options)


def embed_sentences(
    elmo: Elmo,
    sentences: Iterable[Text],
    output: str | Path,
    *,
    layers: Layers = "all",
    dtype: DType = "float32",
    force: bool = False,
    job_id: str | None = None,
    batch_tokens: int | None = None,
    part_bytes: int | None = None,
    show_progress_bar: bool = False,
) -> Summary:
    """Embed sentences from memory or from a generator and write the vectors to a file.

    Works as `embed_file` does, and entry i holds the vectors of sentence i. Sentences are read once
    and streamed, except that those that can be read twice (a list, a column of a table) are hashed
    first: an interrupted run is continued only with the same sentences. An iterator can be read
    only once, so without a `job_id` its run cannot be continued.

    Args:
        elmo: the model.
        sentences: strings, which the model's own tokenizer splits, or lists of tokens, which are
            taken as they are. Every string is one sentence.
        output: the output; its suffix selects the format.
        layers: the layers to store, as in `Elmo.encode_tokens`; all of them by default.
        dtype: data type on disk.
        force: replace an existing output, and discard an unfinished one of another job.
        job_id: identifies the content of `sentences` in place of a hash. Give one to resume from a
            generator, and change it whenever the sentences change.
        batch_tokens: maximum number of tokens per batch; None for a default of the device.
        part_bytes: as in `embed_file`.
        show_progress_bar: show a bar on stderr.

    Returns:
        Counts and timing of this run.

    Raises:
        ElmoxError: if a sentence is neither a string nor a list of strings, if the output exists
            already, or if an unfinished output belongs to another job.
    """
    options = _Options(layers, dtype, force, batch_tokens, part_bytes, show_progress_bar)
    return _embed_lines(elmo, SentenceInput(elmo, sentences, job_id), output, options)


def _embed_lines(elmo: Elmo, input: Input, output: str | Path, options: "_Options") -> Summary:
    began = time.monotonic()
    choice = choose_layers(options.layers, elmo.num_layers, elmo.mixes)
    layout = Layout(None if choice.single else choice.num_chosen, elmo.dim, options.dtype)
    settings = {"layers": repr(options.layers), **input.settings, "state": elmo.state}
    identity = input.identity()
    # An input that cannot be read again gets an identity that no other job has.
    job = {**settings, "input": identity or f"once {uuid.uuid4()}", "model": fingerprint(elmo)}
    about = {**settings, "model": elmo.description, "tokenizer": elmo.config.text.tokenizer}
    num_lines = num_tokens = 0
    with open_writer(
        output,
        layout=layout,
        job=job,
        about=about,
        force=options.force,
        repeatable=identity is not None,
        part_bytes=options.part_bytes or default_part_bytes(elmo),
    ) as writer:
        num_resumed = num_lines = writer.num_done
        embedding = _Embedding(elmo, choice, layout, options.batch_tokens)
        # Continue at the beginning of a chunk: the last bits of vectors depend on the batch.
        num_again = _entries_of_last_chunk(writer.done_lengths(), embedding.chunk_tokens)
        lines = iter(()) if writer.is_whole else input.lines(writer.num_done - num_again)
        with (
            tqdm(unit="tok", unit_scale=True, disable=not options.show_progress_bar) as progress,
            background_thread() as background,
            weights_fixed(),
        ):
            for chunk in _chunks(lines, embedding.chunk_tokens):
                first = num_lines - num_again
                tokens = embedding.embed(chunk, first, num_again, writer, background)
                progress.update(tokens)
                num_tokens += tokens
                num_lines += len(chunk) - num_again
                num_again = 0
    seconds = time.monotonic() - began
    return Summary(num_lines, num_resumed, num_tokens, seconds, writer.was_complete)


def default_part_bytes(elmo: Elmo) -> int:
    """Return the default size of a part."""
    return PART_BYTES_CUDA if elmo.device.type == "cuda" else PART_BYTES


def _chunks(lines: Iterator[Line], max_tokens: int) -> Iterator[list[Line]]:
    """Group consecutive lines up to `max_tokens` tokens; a larger line is its own group."""
    # An empty line counts as a token, so that a file of blank lines does not fill the memory.
    return in_chunks(lines, lambda line: line.num_tokens + 1, max_tokens)


def _entries_of_last_chunk(lengths: Iterable[int], max_tokens: int) -> int:
    """Return the number of entries of the last chunk of `_chunks`; 0 if it is one large line."""
    num_entries, num_tokens = 0, 0
    for chunk in in_chunks(iter(lengths), lambda length: length + 1, max_tokens):
        num_entries, num_tokens = len(chunk), sum(chunk)
    return 0 if num_tokens > max_tokens else num_entries


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


def fingerprint(elmo: Elmo) -> str:
    """Return a digest of everything that vectors depend on except the text."""
    parts = (elmo.digest(), elmo.mixes, elmo.device.type, elmo.dtype)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class _Embedding:
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
        if elmo.device.type == "cuda":
            self.chunk_tokens = max(1, CHUNK_BYTES_CUDA // layout.row_bytes)
        else:
            self.chunk_tokens = max(1, CHUNK_BYTES // (4 * layout.row_values))

    def embed(
        self,
        chunk: list[Line],
        first: int,
        num_done: int,
        writer: VectorWriter,
        background: Background,
    ) -> int:
        """Embed lines and start writing them, except the first `num_done`.

        Args:
            chunk: the lines.
            first: the index of the first of them.
            num_done: number of lines that are embedded but not written.
            writer: the output.
            background: writes while the next chunk is embedded.

        Returns:
            The number of tokens of the lines that are written.
        """
        lengths = np.array([line.num_tokens for line in chunk])
        if num_done == len(chunk):
            return 0
        new, new_lengths = chunk[num_done:], lengths[num_done:]
        if lengths[0] > self.chunk_tokens:
            background.wait()
            records = _records(new, first) if writer.needs_records else [NO_RECORD]
            self._embed_large(chunk[0], writer.reserve(int(lengths[0]), records[0]))
        else:
            rows = self._start([sentence for line in chunk for sentence in line.sentences])
            start = int(lengths[:num_done].sum())

            def write() -> None:
                records = _records(new, first + num_done) if writer.needs_records else None
                writer.append_rows(rows()[start:], new_lengths, records)

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
