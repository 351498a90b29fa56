"""`elmox bench`: how fast this machine is, beside the floor and whatever else is installed."""

import json
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from elmox.cli.embed import Precision
from elmox.cli.model_options import Device, Force, Json
from elmox.cli.train import RecipePath, Settings
from elmox.errors import ElmoxError
from elmox.io.files import refuse_existing, to_json, write_together

if TYPE_CHECKING:
    import torch

    from elmox.bench.table import Report

app = typer.Typer(
    help="Measure speed on this machine: beside the floor, the least time that the arithmetic can "
    "take here, and beside whatever else is installed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Size(StrEnum):
    """A published size, with random weights: speed does not depend on what was learned."""

    small = "small"
    medium = "medium"
    original = "original"


class TrainingPrecision(StrEnum):
    """Precision of products and activations."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class VectorFormat(StrEnum):
    """A format of vector files."""

    hdf5 = "hdf5"
    npy = "npy"
    parquet = "parquet"


Outputs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        help="Write the table to FILE.md, or all that was found to FILE.json. May be repeated.",
        show_default=False,
    ),
]
Repeats: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Runs of which the median counts.", min=1, show_default=False),
]
SizeOption: TypeAlias = Annotated[
    Size | None,
    typer.Option(help="Original on a GPU, small on a CPU by default.", show_default=False),
]
DtypeOption: TypeAlias = Annotated[
    TrainingPrecision | None,
    typer.Option(help="bfloat16 on a GPU, float32 on a CPU by default.", show_default=False),
]
TextOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A text file; Python's own documentation by default.", show_default=False),
]
NoPeers: TypeAlias = Annotated[
    bool, typer.Option("--no-peers", help="Leave out what is not elmox's own.")
]


@app.command("lstm")
def lstm(
    size: SizeOption = None,
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows read side by side. May be repeated.", min=1)
    ] = None,
    steps: Annotated[
        list[int] | None, typer.Option(help="Time steps. May be repeated.", min=1)
    ] = None,
    repeats: Repeats = None,
    dtype: DtypeOption = None,
    compile: Annotated[
        bool, typer.Option("--compile", help="Beside torch.compile too, which takes minutes.")
    ] = False,
    no_peers: NoPeers = False,
    device: Device = None,
    outputs: Outputs = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """One LSTM layer, both directions, projected and clipped: forward and training.

    Beside plain torch and torch.nn.LSTM, which on a GPU is cuDNN's and cannot clip.
    """
    _check_outputs(outputs, force)
    from elmox.bench.lstm import bench_lstm, default_cases

    where = _device(device)
    cases = default_cases(where)
    cases = replace(
        cases,
        size=size.value if size else cases.size,
        rows=rows or cases.rows,
        steps=steps or cases.steps,
        repeats=repeats or cases.repeats,
        compile=compile,
        peers=not no_peers,
    )
    found = bench_lstm(cases, where, _dtype(dtype, where), show_progress_bar=sys.stderr.isatty())
    _report(found, outputs, force, as_json)


@app.command("cnn")
def cnn(
    size: SizeOption = None,
    words: Annotated[
        int | None,
        typer.Option(
            help="Distinct words to spell; 16384 on a GPU, 256 on a CPU by default.",
            min=1,
            show_default=False,
        ),
    ] = None,
    text: TextOption = None,
    repeats: Repeats = None,
    dtype: DtypeOption = None,
    device: Device = None,
    outputs: Outputs = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Distinct words through character CNN, highways and projection: forward and training.

    With the slots that each word needs, and with all of them; beside plain torch.
    """
    _check_outputs(outputs, force)
    from elmox.bench.cnn import CnnCases, bench_cnn, default_num_words
    from elmox.bench.text import distinct_words
    from elmox.text.tokenize import get_tokenizer

    where = _device(device)
    on_gpu = where.type == "cuda"
    number = words or default_num_words(where)
    chosen, num_distinct = distinct_words(text, get_tokenizer("treebank"), number)
    cases = CnnCases(
        size.value if size else "original" if on_gpu else "small",
        chosen,
        num_distinct,
        repeats or (9 if on_gpu else 3),
    )
    found = bench_cnn(cases, where, _dtype(dtype, where), show_progress_bar=sys.stderr.isatty())
    _report(found, outputs, force, as_json)


@app.command("train")
def train(
    recipe: RecipePath,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A corpus directory made by elmox prepare; the recipe's own by default.",
            show_default=False,
        ),
    ] = None,
    settings: Settings = None,
    windows: Annotated[int, typer.Option(help="Windows of which the median counts.", min=1)] = 5,
    window_steps: Annotated[int, typer.Option(help="Training steps of a window.", min=1)] = 20,
    device: Device = None,
    outputs: Outputs = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """The whole training step of a recipe, from the corpus on disk to the update.

    Tokens per second and the most memory in use. Nothing is kept of what was learned.
    """
    _check_outputs(outputs, force)
    from elmox.bench.train import Windows, bench_train
    from elmox.training.recipe import read_recipe

    chosen = read_recipe(recipe, settings or ())
    found = bench_train(chosen, data, _device(device), Windows(windows, window_steps))
    _report(found, outputs, force, as_json)


@app.command("embed")
def embed(
    model: Annotated[
        str | None, typer.Argument(help="A model; random weights of --size by default.")
    ] = None,
    size: Annotated[Size, typer.Option(help="Of random weights.")] = Size.small,
    text: TextOption = None,
    sentences: Annotated[int, typer.Option(help="Sentences to embed.", min=1)] = 500,
    repeats: Annotated[int, typer.Option(help="Runs of which the median counts.", min=1)] = 3,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="Also sentence by sentence.")
    ] = False,
    file: Annotated[
        VectorFormat | None, typer.Option(help="Also to a file of vectors.", show_default=False)
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where that file is made, and removed again.")
    ] = Path("."),
    no_peers: NoPeers = False,
    dtype: Annotated[Precision, typer.Option(help="Of the computation.")] = Precision.float32,
    device: Device = None,
    outputs: Outputs = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tokens per second of encode_tokens: all layers, word cache empty, then filled.

    Beside AllenNLP's own module, if it is installed: pip install --no-deps allennlp==2.10.1
    """
    _check_outputs(outputs, force)
    if file is not None and not folder.is_dir():
        raise ElmoxError(f"--folder {folder} is not a directory: give one with room for vectors")
    from elmox.bench.embed import EmbedCases, bench_embed
    from elmox.bench.text import first_sentences
    from elmox.elmo import Elmo
    from elmox.model.init import random_checkpoint

    where = _device(device or ("cpu" if dtype is Precision.int8 else None))
    elmo = (
        Elmo.from_pretrained(model, device=where, dtype=dtype.value)
        if model
        else Elmo(random_checkpoint(size.value)).to(where, dtype.value)
    )
    cases = EmbedCases(
        first_sentences(text, elmo.tokenize, sentences),
        repeats,
        one_at_a_time,
        file.value if file else None,
        folder,
        peers=not no_peers,
    )
    _report(bench_embed(elmo, cases), outputs, force, as_json)


def _device(device: str | None) -> "torch.device":
    from elmox.elmo import resolve_device

    return resolve_device(device)


def _dtype(given: TrainingPrecision | None, device: "torch.device") -> "torch.dtype":
    from elmox.elmo import DTYPES

    default = TrainingPrecision.bfloat16 if device.type == "cuda" else TrainingPrecision.float32
    return DTYPES[(given or default).value]


def _check_outputs(outputs: list[Path] | None, force: bool) -> None:
    """Before anything is measured: what will be written can be."""
    for path in outputs or ():
        if path.suffix not in _WRITERS:
            raise ElmoxError(f"--output {path}: expected a name that ends in .md or .json")
        refuse_existing(path, force)


def _report(report: "Report", outputs: list[Path] | None, force: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        typer.echo(report.to_markdown(), nl=False)
    write_together({path: _WRITERS[path.suffix](report) for path in outputs or ()}, force)


_WRITERS: dict[str, Any] = {
    ".md": lambda report: report.to_markdown().encode(),
    ".json": lambda report: to_json(report.to_dict()),
}
