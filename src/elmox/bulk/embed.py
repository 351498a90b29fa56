"""A whole text file to a file of vectors: streaming, in bounded memory, safe to kill.

Lines are taken in chunks large enough to batch by length and small enough to hold; a line larger
than a chunk is written piece by piece into room reserved for it. Entries go through a
`VectorWriter`, so that an interrupted run continues where its last closed part ended.
"""

import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmox.bulk.files import VectorWriter, open_writer
from elmox.bulk.layout import Layout
from elmox.bulk.lines import Line, check_source, line_format, read_lines
from elmox.bulk.parts import PART_BYTES, Entry
from elmox.elmo import Elmo
from elmox.model.layer_choice import LayerChoice, Layers, choose_layers
from elmox.tensors import digest

CHUNK_BYTES = 2**25  # float32 vectors held at a time


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    num_lines: int  # entries in the output
    num_resumed: int  # of these, taken over from an interrupted run
    num_tokens: int  # embedded by this run
    seconds: float


def embed_file(
    elmo: Elmo,
    source: str,
    output: str | Path,
    *,
    layers: Layers = "all",
    dtype: Literal["float32", "float16"] = "float32",
    raw: bool = False,
    force: bool = False,
    batch_tokens: int | None = None,
    part_bytes: int = PART_BYTES,
    show_progress_bar: bool = False,
) -> Summary:
    """Embed every line of a text file.

    Args:
        elmo: the model.
        source: a text file, a .jsonl file, or - for stdin.
        output: .hdf5, .parquet, or a directory of npy shards; must not exist.
        layers: as in `Elmo.encode_tokens`; "all" by default.
        dtype: of the numbers on disk.
        raw: lines are running text rather than tokens.
        force: replace an existing output.
        batch_tokens: as in `Elmo.encode_tokens`.
        part_bytes: what an interruption costs at most; the size of npy shards.
        show_progress_bar: on stderr.
    """
    began = time.monotonic()
    check_source(source)
    choice = choose_layers(layers, elmo.num_layers, elmo.mixes)
    layout = Layout(None if choice.single else choice.num_chosen, elmo.dim, dtype)
    format = line_format(source, raw)
    settings = {"layers": repr(layers), "lines": format, "state": elmo.state}
    job = {**settings, "input": _identity(source), "model": _fingerprint(elmo)}
    about = {**settings, "model": elmo.found, "tokenizer": elmo.config.text.tokenizer}
    num_lines = num_tokens = 0
    with open_writer(
        output, layout=layout, job=job, about=about, force=force, part_bytes=part_bytes
    ) as writer:
        num_resumed = num_lines = writer.num_done
        lines = read_lines(source, format, elmo.tokenize, skip=writer.num_done)
        with tqdm(unit="tok", unit_scale=True, disable=not show_progress_bar) as progress:
            for chunk in _chunks(lines, _chunk_tokens(choice, elmo.dim)):
                _embed_chunk(elmo, chunk, choice, layers, batch_tokens, writer)
                tokens = sum(line.num_tokens for line in chunk)
                progress.update(tokens)
                num_tokens += tokens
                num_lines += len(chunk)
    return Summary(num_lines, num_resumed, num_tokens, time.monotonic() - began)


def _chunk_tokens(choice: LayerChoice, dim: int) -> int:
    return max(1, CHUNK_BYTES // (4 * choice.num_chosen * dim))


def _chunks(lines: Iterator[Line], most_tokens: int) -> Iterator[list[Line]]:
    """Consecutive lines of at most `most_tokens` tokens together; a larger line stands alone."""
    chunk: list[Line] = []
    total = 0
    for line in lines:
        # An empty line costs a little too: a file of blank lines must not gather in memory.
        size = line.num_tokens + 1
        if chunk and total + size > most_tokens:
            yield chunk
            chunk, total = [], 0
        chunk.append(line)
        total += size
    if chunk:
        yield chunk


def _embed_chunk(
    elmo: Elmo,
    chunk: list[Line],
    choice: LayerChoice,
    layers: Layers,
    batch_tokens: int | None,
    writer: VectorWriter,
) -> None:
    if len(chunk) == 1 and chunk[0].num_tokens > _chunk_tokens(choice, elmo.dim):
        _embed_large(
            elmo, chunk[0], choice, layers, batch_tokens, writer.reserve(chunk[0].num_tokens)
        )
        return
    sentences = [sentence for line in chunk for sentence in line.sentences]
    vectors = iter(elmo.encode_tokens(sentences, layers=layers, batch_tokens=batch_tokens))
    empty = np.zeros(
        (0, elmo.dim) if choice.single else (choice.num_chosen, 0, elmo.dim), np.float32
    )
    for line in chunk:
        own = [next(vectors) for _ in line.sentences]
        writer.append(own[0] if len(own) == 1 else np.concatenate([empty, *own], axis=-2))


def _embed_large(
    elmo: Elmo,
    line: Line,
    choice: LayerChoice,
    layers: Layers,
    batch_tokens: int | None,
    entry: Entry,
) -> None:
    """Fill the entry of a line that does not fit into a chunk, sentence by sentence."""
    most = _chunk_tokens(choice, elmo.dim)
    start = 0
    for group in _chunks((Line([sentence]) for sentence in line.sentences), most):
        sentences = [sentence for part in group for sentence in part.sentences]
        if sum(map(len, sentences)) <= most:
            for own in elmo.encode_tokens(sentences, layers=layers, batch_tokens=batch_tokens):
                entry[..., start : start + own.shape[-2], :] = own
                start += own.shape[-2]
            continue
        _embed_long_sentence(elmo, sentences[0], choice, entry, start)
        start += len(sentences[0])


def _embed_long_sentence(
    elmo: Elmo, sentence: list[str], choice: LayerChoice, entry: Entry, start: int
) -> None:
    def write(tokens: slice, dims: slice, vectors: Tensor) -> None:
        own: NDArray[np.float32] = vectors.float().cpu().numpy()
        where = slice(start + tokens.start, start + tokens.stop)
        entry[..., where, dims] = own[0] if choice.single else own

    elmo.reader.read_long(sentence, elmo.start_state(1), choice, write)


def _identity(source: str) -> Any:
    """What tells this input from another. Nobody can tell one stdin from another."""
    if source == "-":
        return f"stdin {uuid.uuid4()}"
    status = os.stat(source)
    return [os.path.realpath(source), status.st_size, status.st_mtime_ns]


def _fingerprint(elmo: Elmo) -> str:
    """A digest of everything in the model that a vector depends on."""
    checkpoint = elmo.checkpoint()
    tensors = dict(checkpoint.tensors)
    if elmo.state == "warm" and checkpoint.warm_state is not None:
        state = checkpoint.warm_state
        tensors |= {"warm_state.hidden": state.hidden, "warm_state.cell": state.cell}
    vocabularies = (checkpoint.characters, checkpoint.words)
    where = (elmo.device.type, elmo.dtype)
    parts = (checkpoint.config, checkpoint.mixes, vocabularies, where, digest(tensors))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
