"""A text file, or sentences, to a file of vectors: streaming, in bounded memory, safe to kill.

Lines are embedded in chunks (see `chunks`). A chunk is converted to the bytes of the file on the
device, and written while the next one is computed. Entries go through a `VectorWriter`, so that an
interrupted run continues where its last part was saved.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from elmox.elmo import Elmo
from elmox.inference.layer_choice import Layers
from elmox.io.background import background_thread
from elmox.io.progress import Log, ReadingProgress
from elmox.kernels.derived import weights_fixed
from elmox.text.inputs import Text
from elmox.vectors.chunks import blocks_of
from elmox.vectors.files import open_writer
from elmox.vectors.inputs import FileInput, SentenceInput
from elmox.vectors.job import EmbedJob, EmbedOptions, default_part_bytes
from elmox.vectors.layout import DType


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
    log: Log | None = None,
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
        show_progress_bar: show a bar on stderr, with the time left.
        log: without a bar, receives a line about the progress every 30 seconds.

    Returns:
        Counts and timing of this run.

    Raises:
        ElmoxError: if a line cannot be read, if the output exists already, or if an unfinished
            output belongs to another job.
    """
    job = EmbedJob(
        elmo, FileInput(elmo, str(source), tokenized), EmbedOptions(layers, dtype, batch_tokens)
    )
    part_bytes = part_bytes or default_part_bytes(elmo)
    return _embed_lines(job, output, force, part_bytes, (show_progress_bar, log))


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
    log: Log | None = None,
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
        show_progress_bar: show a bar on stderr, with the time left.
        log: without a bar, receives a line about the progress every 30 seconds.

    Returns:
        Counts and timing of this run.

    Raises:
        ElmoxError: if a sentence is neither a string nor a list of strings, if the output exists
            already, or if an unfinished output belongs to another job.
    """
    job = EmbedJob(
        elmo, SentenceInput(elmo, sentences, job_id), EmbedOptions(layers, dtype, batch_tokens)
    )
    part_bytes = part_bytes or default_part_bytes(elmo)
    return _embed_lines(job, output, force, part_bytes, (show_progress_bar, log))


def _embed_lines(
    job: EmbedJob,
    output: str | Path,
    force: bool,
    part_bytes: int,
    progress: tuple[bool, Log | None],
) -> Summary:
    began = time.monotonic()
    num_tokens = 0
    with open_writer(
        output,
        layout=job.layout,
        job=job.values,
        about=job.about,
        force=force,
        repeatable=job.is_repeatable,
        part_bytes=part_bytes,
    ) as writer:
        num_resumed = num_lines = writer.num_done
        if not writer.is_whole:
            embedder = job.embedder()
            origin = job.input.block_of(num_resumed, job.block_size)
            num_done, first = num_resumed - origin.line, origin.line
            with (
                ReadingProgress(job.input.size(), origin.start, *progress) as report,
                background_thread() as background,
                weights_fixed(),
            ):
                for block in blocks_of(job.input.lines(origin), job.block_size):
                    chunks = embedder.embed_block(block, first, num_done, writer, background)
                    for last, num_new, tokens in chunks:
                        report.advance(last.start, tokens)
                        num_tokens += tokens
                        num_lines += num_new
                    first, num_done = num_lines, 0
    seconds = time.monotonic() - began
    return Summary(num_lines, num_resumed, num_tokens, seconds, writer.was_complete)
