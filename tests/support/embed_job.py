"""`embed_file` in small chunks and parts, for the tests to kill: `elmox embed` in many steps."""

import json
from dataclasses import asdict
from pathlib import Path

import elmox.vectors.embed
from elmox.elmo import Elmo
from elmox.vectors.embed import Summary, embed_file

SMALL = 2**14


def embed_in_small_steps(model: Path, source: Path, output: Path, force: bool = False) -> Summary:
    """Embed all layers in float32, in chunks and parts of 16 kB."""
    whole = elmox.vectors.embed.CHUNK_BYTES
    elmox.vectors.embed.CHUNK_BYTES = SMALL
    try:
        elmo = Elmo.from_pretrained(model, device="cpu")
        return embed_file(elmo, str(source), output, tokenized=True, part_bytes=SMALL, force=force)
    finally:
        elmox.vectors.embed.CHUNK_BYTES = whole


def embed_and_report(model: Path, source: Path, output: Path, summary: Path) -> None:
    """Embed in small steps and write the summary to a JSON file."""
    summary.write_text(json.dumps(asdict(embed_in_small_steps(model, source, output))))
