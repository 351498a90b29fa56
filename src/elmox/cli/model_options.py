"""What every verb that loads a model takes."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from elmox.config import BUNDLED

ModelPath: TypeAlias = Annotated[
    str,
    typer.Argument(
        help=f"A model: {BUNDLED} (comes with elmox), elmox directory, weights.hdf5, NLPL zip, "
        "AllenNLP model.tar.gz, ELMoForManyLangs folder, or hub id.",
        show_default=False,
    ),
]
Options: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Options file of legacy weights, where it is not beside them."),
]
VocabFile: TypeAlias = Annotated[
    Path | None, typer.Option("--vocab", help="Vocabulary of a legacy word model.")
]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--token-embeddings", help="bilm-tf's cached token vectors, with --vocab."),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
TaskElmo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--elmo",
        help="A fitted model's biLM, if that no longer lies where it lay.",
        show_default=False,
    ),
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")]
Device: TypeAlias = Annotated[
    str | None, typer.Option(help="cpu, cuda, ...; a GPU if there is one by default.")
]
SoftmaxFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--softmax", help="AI2's softmax file, for a model that has none of its own."),
]
SoftmaxVocab: TypeAlias = Annotated[
    Path | None, typer.Option("--softmax-vocab", help="The vocabulary of --softmax.")
]
TEXT_HELP = (
    "Running text, or with --tokenized a tokenized sentence per line; .jsonl with text or tokens; "
    "plain or compressed (.gz, .xz, .bz2, .zst); - for stdin."
)
TextFile: TypeAlias = Annotated[
    str, typer.Argument(metavar="TEXT", help=TEXT_HELP, show_default=False)
]
Tokenized: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--tokenized", help="Each line is one tokenized sentence: split it at white space only."
    ),
]


def _raw_is_the_default(raw: bool) -> bool:
    if raw:
        typer.echo("elmox: --raw is deprecated: running text is the default now", err=True)
    return raw


Raw: TypeAlias = Annotated[bool, typer.Option("--raw", hidden=True, callback=_raw_is_the_default)]
