"""`elmox convert`: any checkpoint to an elmox directory, or to AI2's format."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmox.cli.options import (
    Force,
    LanguageModelOptions,
    ModelArgument,
    PrintOptions,
    TextOptions,
    WeightType,
)
from elmox.cli.verb import verb
from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_JSON_BYTES, read_whole

if TYPE_CHECKING:
    from elmox.model.checkpoint import Checkpoint


@verb(
    "elmox convert weights.hdf5 my-model --dtype float16",
    "elmox convert english-small old-format.hdf5 --no-softmax",
)
def command(
    model: ModelArgument,
    output: Annotated[
        Path,
        typer.Argument(
            help="A directory (elmox format), or NAME.hdf5 (AI2's format) with NAME_options.json "
            "and, for a model with a softmax, NAME_softmax.hdf5 and NAME_vocab.txt.",
        ),
    ],
    no_softmax: Annotated[bool, "Leave out the softmax: vectors do not need it."] = False,
    dtype: Annotated[
        WeightType, "Number format of the weights; int8 has scales next to the integers."
    ] = WeightType.float32,
    softmax_dtype: Annotated[
        WeightType | None, "Number format of the softmax; by default that of --dtype."
    ] = None,
    warm_up: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Read this text (- for stdin) and store the mean LSTM state over its sentences as "
            "the model's warm start state.",
        ),
    ] = None,
    force: Force = False,
    card: Annotated[
        Path | None, "Model card in Markdown; {facts} in it is replaced by a table of the model."
    ] = None,
    *,
    lines: TextOptions,
    files: LanguageModelOptions,
    show: PrintOptions,
) -> None:
    """Convert a model to an elmox directory, or to AI2's hdf5 format.

    Every format that elmox loads can be converted to a directory. AI2's format holds models that
    read bytes or whole words, in float32.
    """
    from elmox.io.files import refuse_existing
    from elmox.model.checkpoint import build_bilm, build_indexer, build_softmax
    from elmox.pretrained.ai2 import write_ai2
    from elmox.pretrained.native import PARTS, write_directory

    refuse_existing(output, force)
    to_ai2 = output.suffix in (".hdf5", ".h5")
    types = dtype, softmax_dtype or dtype
    if to_ai2 and (set(types) != {WeightType.float32} or warm_up or card):
        raise ElmoxError(
            f"{output}: AI2's format only holds float32 weights: leave out --dtype, "
            "--softmax-dtype, --warm-up and --card, or give a directory"
        )
    text = None if card is None else _read_card(card)
    checkpoint = files.load_checkpoint(model)
    if no_softmax:
        checkpoint = replace(checkpoint, softmax=None)
    build_bilm(checkpoint, model)  # checks every array before anything is written
    build_indexer(checkpoint, model)
    build_softmax(checkpoint)
    written = [output]
    if to_ai2:
        written.append(write_ai2(checkpoint, output, force))
    else:
        if warm_up is not None:
            checkpoint = _warmed_up(checkpoint, warm_up, lines)
        eight_bit = [part for part, type in zip(PARTS, types, strict=True) if type == "int8"]
        write_directory(_rounded(checkpoint, *types), output, force, text, eight_bit)
    names = [str(path) for path in written]
    if show.as_json:
        show.result({"description": checkpoint.description, "output": names}, "")
    else:
        show.log(f"{checkpoint.description} is now {' with '.join(names)}")


def _rounded(
    checkpoint: "Checkpoint", dtype: WeightType, softmax_dtype: WeightType
) -> "Checkpoint":
    """Return the model in the precision in which it is stored; float32 for parts in 8 bits."""
    from elmox.inference.device import DTYPES
    from elmox.model.checkpoint import in_precision

    precisions = [
        DTYPES[WeightType.float32 if type is WeightType.int8 else type]
        for type in (dtype, softmax_dtype)
    ]
    model, softmax = (in_precision(checkpoint, precision) for precision in precisions)
    return replace(model, softmax=softmax.softmax)


def _read_card(path: Path) -> str:
    try:
        return read_whole(path, MAX_JSON_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 (byte {error.start}): convert it first") from error


def _warmed_up(checkpoint: "Checkpoint", text: str, lines: TextOptions) -> "Checkpoint":
    """Return the model with the state that it has after reading a text."""
    from elmox.elmo import Elmo

    elmo = Elmo(checkpoint)
    elmo.warm_up(list(lines.sentences(text, elmo.tokenize)))
    return elmo.checkpoint()
