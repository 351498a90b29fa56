"""The cost of embedding many tokens, computed from a measured sample of the text.

The sample is embedded and written as `embed_file` does, on this machine. With W workers, each as
fast as the sample, N tokens take

    N * (embed + join) / W          and with several workers, for the merged file,  + N * join

where `embed` and `join` are seconds per token: join is the writing of the final file from its
parts. Workers write parts, which one process merges.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat
from pathlib import Path

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.layer_choice import Layers
from elmox.io.background import background_thread
from elmox.io.temporary import scratch_directory
from elmox.io.text_files import STDIN
from elmox.kernels.derived import weights_fixed
from elmox.text.lines import Line
from elmox.vectors.chunks import blocks_of
from elmox.vectors.files import VectorWriter, open_writer
from elmox.vectors.formats import FORMATS, Format
from elmox.vectors.inputs import FileInput
from elmox.vectors.job import EmbedJob, EmbedOptions, default_part_bytes
from elmox.vectors.layout import DType

MAX_BYTES = 2 << 30  # vectors of a sample
WARM_UP = 64  # sentences: kernels are compiled and weights packed before the clock starts


@dataclass(frozen=True)
class EmbedPlan:
    """The cost of embedding.

    Attributes:
        num_sampled: number of tokens of the sample.
        embed_seconds, join_seconds: per token: vectors to parts, and parts to the final file.
        bytes_per_token: size of the output.
        device: what the sample ran on.
    """

    num_sampled: int
    embed_seconds: float
    join_seconds: float
    bytes_per_token: int
    device: str

    def worker_seconds(self, num_tokens: int, num_workers: int = 1) -> float:
        """Return the time until workers have written all parts."""
        return num_tokens * (self.embed_seconds + self.join_seconds) / num_workers

    def merge_seconds(self, num_tokens: int, num_workers: int = 1) -> float:
        """Return the time in which one process merges their parts; 0 for a single worker."""
        return num_tokens * self.join_seconds if num_workers > 1 else 0.0

    def num_bytes(self, num_tokens: int) -> int:
        """Return the size of the output; until it is complete, twice as much is needed."""
        return num_tokens * self.bytes_per_token


def plan_embed(
    elmo: Elmo,
    source: str | Path,
    *,
    layers: Layers = "all",
    dtype: DType = "float32",
    tokenized: bool = False,
    batch_tokens: int | None = None,
    format: Format = "hdf5",
    folder: Path | None = None,
    seconds: float = 10.0,
) -> EmbedPlan:
    """Embed the beginning of a text, write it, and measure both.

    Args:
        elmo: the model.
        source: a text of the kind that shall be embedded, as in `embed_file`. A short one is
            repeated.
        layers: the layers to store.
        dtype: data type on disk.
        tokenized: lines are sentences of tokens with white space between them.
        batch_tokens: maximum number of tokens per batch.
        format: format of the output.
        folder: an existing directory on the disk that the output shall be on; by default the
            system's directory for temporary files.
        seconds: duration of the measurement; it ends earlier after 2 GB.
    """
    if str(source) == STDIN:
        raise ElmoxError("stdin can be read only once: give a file")
    if folder is not None and not folder.is_dir():
        raise ElmoxError(f"{folder} is not a directory: give one on the disk of the output")
    job = EmbedJob(
        elmo, FileInput(elmo, str(source), tokenized), EmbedOptions(layers, dtype, batch_tokens)
    )
    sentences = list(islice(_sentences(job), WARM_UP))
    if not sentences:
        raise ElmoxError(f"{source} has no tokens: give the text to be measured")
    elmo.encode_tokens(sentences, layers=layers, batch_tokens=batch_tokens)
    with scratch_directory("elmox-plan", folder) as scratch:
        writer = open_writer(
            scratch / f"sample{FORMATS[format].suffixes[0]}",
            layout=job.layout,
            job={},
            format=format,
            repeatable=False,
            part_bytes=default_part_bytes(elmo),
        )
        try:
            began = time.perf_counter()
            num_sampled = _embed(job, writer, seconds)
            embedded = time.perf_counter()
            writer.finish()
            joined = time.perf_counter()
        finally:
            writer.close()
    return EmbedPlan(
        num_sampled=num_sampled,
        embed_seconds=(embedded - began) / num_sampled,
        join_seconds=(joined - embedded) / num_sampled,
        bytes_per_token=job.layout.row_bytes,
        device=str(elmo.device),
    )


def _embed(job: EmbedJob, writer: VectorWriter, seconds: float) -> int:
    """Write vectors for some seconds; return their number."""
    began, num_tokens = time.perf_counter(), 0
    max_tokens = MAX_BYTES // job.layout.row_bytes
    with background_thread() as background, weights_fixed():
        embedder = job.embedder()
        for block in _blocks(job):
            for _, _, tokens in embedder.embed_block(block, 0, 0, writer, background):
                num_tokens += tokens
                if time.perf_counter() - began >= seconds or num_tokens >= max_tokens:
                    return num_tokens
    raise AssertionError("blocks are repeated without end")


def _sentences(job: EmbedJob) -> Iterator[list[str]]:
    return chain.from_iterable(line.sentences for line in job.input.lines())


def _blocks(job: EmbedJob) -> Iterator[Iterator[Line]]:
    """Yield the blocks of the text, again and again."""
    return chain.from_iterable(blocks_of(job.input.lines(), job.block_size) for _ in repeat(None))
