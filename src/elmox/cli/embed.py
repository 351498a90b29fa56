"""`elmox embed`: a text file to a file of vectors."""

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.interruption import resumable
from elmox.cli.model_options import (
    TEXT_HELP,
    Device,
    Force,
    Json,
    ModelPath,
    Options,
    Raw,
    TokenFile,
    Tokenized,
    VocabFile,
)


class OutputType(StrEnum):
    """Precision of the numbers on disk."""

    float32 = "float32"
    float16 = "float16"


class Precision(StrEnum):
    """Precision of the computation."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int8 = "int8"


class State(StrEnum):
    """Where every sentence starts."""

    zero = "zero"
    warm = "warm"


def command(
    model: ModelPath,
    source: Annotated[str, typer.Argument(metavar="INPUT", help=TEXT_HELP, show_default=False)],
    output: Annotated[
        Path,
        typer.Argument(
            help="OUT.hdf5 (bilm-tf's layout), OUT.parquet, or OUT, a directory of npy shards.",
            show_default=False,
        ),
    ],
    layers: Annotated[
        str, typer.Option(help="all, average, top, mix, mix:NAME, or numbers such as 1 or 0,2.")
    ] = "all",
    dtype: Annotated[OutputType, typer.Option(help="Of the numbers on disk.")] = OutputType.float32,
    precision: Annotated[Precision, typer.Option(help="Of the computation.")] = Precision.float32,
    tokenized: Tokenized = False,
    raw: Raw = False,
    state: Annotated[State, typer.Option(help="Where every sentence starts.")] = State.zero,
    device: Device = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Most tokens in a batch.", min=1)] = None,
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Embed a text file, line by line.

    Entry i of the output is line i of the input; an empty line is an empty entry. Read it with
    elmox.open_vectors(OUTPUT)[i]. Killed at any moment, the same command goes on where it was.
    """
    # oneDNN keeps the code that it compiled for the last thousand shapes, some 500 MB after a few
    # million tokens; the last 64 serve as well. It asks when it is first used.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    from elmox.elmo import Elmo
    from elmox.io.text_files import STDIN
    from elmox.vectors.embed import embed_file

    elmo = Elmo.from_pretrained(
        model,
        options=options,
        vocab=vocab,
        token_embeddings=token_embeddings,
        state=state.value,
        device=device,
        dtype=precision.value,
    )
    with nullcontext() if source == STDIN else resumable():  # nobody has the same stdin twice
        summary = embed_file(
            elmo,
            source,
            output,
            layers=parse_layers(layers),
            dtype=dtype.value,
            tokenized=tokenized,
            force=force,
            batch_tokens=batch_tokens,
            show_progress_bar=sys.stderr.isatty(),
        )
    if as_json:
        typer.echo(json.dumps({"output": str(output), **asdict(summary)}))
        return
    if summary.was_complete:
        typer.echo(
            f"elmox: {output} is complete: {summary.num_lines} lines, no work left", err=True
        )
        return
    resumed = f", {summary.num_resumed} of them from an earlier run" if summary.num_resumed else ""
    typer.echo(
        f"elmox: {summary.num_lines} lines{resumed} in {output}; {summary.num_tokens} tokens in "
        f"{summary.seconds:.1f} s, by {elmo.description}",
        err=True,
    )


def parse_layers(text: str) -> str | int | list[int]:
    """`1` is a number, `0,2` a list, everything else a name."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers
