"""`elmox convert`: any checkpoint to a native directory, or back to AI2's format."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.embed import OutputType
from elmox.cli.model_options import (
    Force,
    ModelPath,
    Options,
    Raw,
    SoftmaxFile,
    SoftmaxVocab,
    TokenFile,
    Tokenized,
    VocabFile,
)
from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_JSON_BYTES, read_whole

if TYPE_CHECKING:
    from elmox.model.checkpoint import Checkpoint


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
    dtype: Annotated[
        OutputType,
        typer.Option(help="Of the numbers in a directory: float16 is half the size."),
    ] = OutputType.float32,
    warm_up: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Read some typical text (- for stdin) and store "
            "the state after it as the model's warm start state.",
        ),
    ] = None,
    tokenized: Tokenized = False,
    raw: Raw = False,
    card: Annotated[
        Path | None,
        typer.Option(
            help="A model card in Markdown to put in place of the plain one; {facts} in it "
            "becomes the table of what the model is."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Convert a checkpoint: legacy to native, or anything that spells bytes to AI2's hdf5."""
    from elmox.inference.device import DTYPES
    from elmox.io.files import refuse_existing
    from elmox.model.checkpoint import build_bilm, build_indexer, build_softmax, in_precision
    from elmox.pretrained.ai2 import write_ai2
    from elmox.pretrained.load import load_checkpoint, write_directory

    refuse_existing(output, force)
    to_ai2 = output.suffix in (".hdf5", ".h5")
    if to_ai2 and (dtype is not OutputType.float32 or warm_up or card):
        raise ElmoxError(
            f"{output}: AI2's format holds float32 weights and nothing else: leave out --dtype, "
            "--warm-up and --card, or give a directory"
        )
    text = None if card is None else _read_card(card)
    checkpoint = load_checkpoint(model, options, vocab, token_embeddings, softmax, softmax_vocab)
    if no_softmax:
        checkpoint = replace(checkpoint, softmax=None)
    build_bilm(checkpoint, model)  # checks every array before anything is written
    build_indexer(checkpoint, model)
    build_softmax(checkpoint)
    if to_ai2:
        options = write_ai2(checkpoint, output, force)
        typer.echo(f"elmox: {checkpoint.description} is now {output} with {options}", err=True)
        return
    if warm_up is not None:
        checkpoint = _warmed_up(checkpoint, warm_up, tokenized)
    write_directory(in_precision(checkpoint, DTYPES[dtype.value]), output, force, text)
    typer.echo(f"elmox: {checkpoint.description} is now {output}", err=True)


def _read_card(path: Path) -> str:
    try:
        return read_whole(path, MAX_JSON_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 (byte {error.start}): convert it first") from error


def _warmed_up(checkpoint: "Checkpoint", text: str, tokenized: bool) -> "Checkpoint":
    """The same model with the state in which it is after a text."""
    from elmox.elmo import Elmo
    from elmox.text.lines import line_format, read_lines

    elmo = Elmo(checkpoint)
    lines = read_lines(text, line_format(text, tokenized), elmo.tokenize)
    elmo.warm_up([sentence for line in lines for sentence in line.sentences])
    return elmo.checkpoint()
