"""`embed_file` in small chunks and parts, as a script for the tests to kill.

`python embed_job.py MODEL INPUT OUTPUT` does what `elmox embed` does, only in many more steps.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import elmox.bulk.embed
from elmox.bulk.embed import Summary, embed_file
from elmox.elmo import Elmo

SMALL = 2**14


def embed_in_small_steps(model: Path, source: Path, output: Path, force: bool = False) -> Summary:
    """All layers in float32, in chunks and parts of 16 kB."""
    whole = elmox.bulk.embed.CHUNK_BYTES
    elmox.bulk.embed.CHUNK_BYTES = SMALL
    try:
        elmo = Elmo.from_pretrained(model, device="cpu")
        return embed_file(elmo, str(source), output, part_bytes=SMALL, force=force)
    finally:
        elmox.bulk.embed.CHUNK_BYTES = whole


if __name__ == "__main__":
    model, source, output = map(Path, sys.argv[1:])
    summary = embed_in_small_steps(model, source, output)
    sys.stdout.write(json.dumps(asdict(summary)))
