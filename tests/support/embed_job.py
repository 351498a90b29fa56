"""`embed_file` in small chunks and parts, for the tests to kill: `elmox embed` in many steps."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import elmox.vectors.chunks
import elmox.vectors.inputs
from elmox.elmo import Elmo
from elmox.vectors.chunks import ChunkEmbedder
from elmox.vectors.embed import Summary, embed_file
from elmox.vectors.job import EmbedOptions
from elmox.vectors.shards import ShardEmbedder

SMALL = 2**14


def embed_in_small_steps(model: Path, source: Path, output: Path, force: bool = False) -> Summary:
    """Embed all layers in float32, in chunks and parts of 16 kB."""
    whole = elmox.vectors.chunks.CHUNK_BYTES
    elmox.vectors.chunks.CHUNK_BYTES = SMALL
    try:
        elmo = Elmo.from_pretrained(model, device="cpu")
        return embed_file(elmo, str(source), output, tokenized=True, part_bytes=SMALL, force=force)
    finally:
        elmox.vectors.chunks.CHUNK_BYTES = whole


def embed_and_report(model: Path, source: Path, output: Path, summary: Path) -> None:
    """Embed in small steps and write the summary to a JSON file."""
    summary.write_text(json.dumps(asdict(embed_in_small_steps(model, source, output))))


@contextmanager
def small_blocks() -> Iterator[None]:
    """Blocks of a kilobyte or 16 rows, chunks of 57 tokens, for the time of a `with`."""
    inputs, chunks = elmox.vectors.inputs, elmox.vectors.chunks
    with (
        patch.object(inputs, "BLOCK_BYTES", 2**10),
        patch.object(inputs, "BLOCK_ROWS", 16),
        patch.object(inputs, "BLOCK_CHUNKS", 1),
        patch.object(chunks, "CHUNK_BYTES", 2**13),
    ):
        yield


def embed_and_be_killed(model: Path, source: Path, output: Path, number: int) -> None:
    """Embed the missing parts, and kill this process before its chunk of that number."""
    embed, num_chunks = ChunkEmbedder._embed, 0

    def count(self: ChunkEmbedder, *arguments: Any) -> int:
        nonlocal num_chunks
        num_chunks += 1
        if num_chunks == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(self, *arguments)

    with small_blocks(), patch.object(ChunkEmbedder, "_embed", count):
        elmo = Elmo.from_pretrained(model, device="cpu")
        embedder = ShardEmbedder(elmo, source, output, EmbedOptions())
        for part in embedder.plan.missing():
            embedder.embed(part)
