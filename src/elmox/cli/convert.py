"""`elmox convert`: any checkpoint to a native directory, or back to AI2's format."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from elmox.cli.model_options import (
    Force,
    ModelPath,
    Options,
    SoftmaxFile,
    SoftmaxVocab,
    TokenFile,
    VocabFile,
)


def command(
    model: ModelPath,
    output: Annotated[
        Path,
        typer.Argument(
            help="A directory (elmox's own format), or OUT.hdf5 for AI2's, with OUT_options.json "
            "and, for a model with a softmax, OUT_softmax.hdf5 and OUT_vocab.txt.",
            show_default=False,
        ),
    ],
    options: Options = None,
    vocab: VocabFile = None,
    token_embeddings: TokenFile = None,
    softmax: SoftmaxFile = None,
    softmax_vocab: SoftmaxVocab = None,
    no_softmax: Annotated[
        bool, typer.Option("--no-softmax", help="Leave the softmax out: vectors do without it.")
    ] = False,
    force: Force = False,
) -> None:
    """Convert a checkpoint: legacy to native, or anything that spells bytes to AI2's hdf5."""
    from elmox.files import refuse_existing
    from elmox.hub import load_checkpoint, write_directory
    from elmox.legacy.ai2 import write_ai2
    from elmox.model.checkpoint import build_bilm, build_indexer, build_softmax

    refuse_existing(output, force)
    checkpoint = load_checkpoint(model, options, vocab, token_embeddings, softmax, softmax_vocab)
    if no_softmax:
        checkpoint = replace(checkpoint, softmax=None)
    build_bilm(checkpoint, model)  # checks every array before anything is written
    build_indexer(checkpoint, model)
    build_softmax(checkpoint)
    if output.suffix in (".hdf5", ".h5"):
        options = write_ai2(checkpoint, output, force)
        typer.echo(f"elmox: {checkpoint.found} is now {output} with {options}", err=True)
    else:
        write_directory(checkpoint, output, force)
        typer.echo(f"elmox: {checkpoint.found} is now {output}", err=True)
