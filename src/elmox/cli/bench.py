"""`elmox bench`: speed on this machine, next to its lower bound and to other installed packages."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from elmox.cli.options import Force, Precision, PrecisionOption, PrintOptions, RunOptions, Settings
from elmox.cli.train import RecipeArgument
from elmox.cli.verb import verb, verb_group
from elmox.errors import ElmoxError
from elmox.io.files import refuse_existing, to_json, write_together
from elmox.vectors.formats import ReadableFormat

if TYPE_CHECKING:
    import torch

    from elmox.bench.table import Report


class Size(StrEnum):
    """A published size, with random weights: speed does not depend on their values."""

    small = "small"
    medium = "medium"
    original = "original"


Repeats: TypeAlias = Annotated[int, typer.Option(help="Number of runs; the median counts.", min=1)]
TextOption: TypeAlias = Annotated[Path | None, "Running text; Python's documentation by default."]
NoPeers: TypeAlias = Annotated[bool, "Leave out other packages."]


class TrainingPrecision(StrEnum):
    """Precision of products and activations."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@dataclass(frozen=True)
class KernelOptions:
    """Measurement of one operation."""

    size: Annotated[Size | None, "Model size; original on a GPU, otherwise small."] = None
    precision: Annotated[
        TrainingPrecision | None,
        "Precision of the computation; bfloat16 on a GPU, otherwise float32.",
    ] = None
    repeats: Annotated[
        int | None, typer.Option(help="Number of runs; the median counts.", min=1)
    ] = None

    def dtype(self, device: "torch.device") -> "torch.dtype":
        """Return the precision as torch names it."""
        from elmox.inference.device import DTYPES

        default = TrainingPrecision.bfloat16 if device.type == "cuda" else TrainingPrecision.float32
        return DTYPES[(self.precision or default).value]


@dataclass(frozen=True)
class TableOptions:
    """Files that a table is written to."""

    out: Annotated[
        list[Path] | None,
        "Also write the table to FILE.md, or all values to FILE.json. May be repeated.",
    ] = None
    force: Force = False

    def check(self) -> None:
        """Refuse wrong names and existing files before anything is measured."""
        for path in self.out or ():
            if path.suffix not in _WRITERS:
                raise ElmoxError(f"--out {path}: expected a name that ends in .md or .json")
            refuse_existing(path, self.force)

    def finish(self, report: "Report", show: PrintOptions) -> None:
        """Print the table, and write its files."""
        show.result(report.to_dict(), report.to_markdown())
        files = {path: _WRITERS[path.suffix](report) for path in self.out or ()}
        write_together(files, self.force)


_WRITERS: dict[str, Any] = {
    ".md": lambda report: report.to_markdown().encode(),
    ".json": lambda report: to_json(report.to_dict()),
}


@verb(
    "elmox bench lstm --size small --rows 8 --steps 5 --repeats 1",
    "elmox bench lstm --size small --rows 8 --steps 5 --repeats 1 --no-peers --out lstm.md",
)
def lstm(
    rows: Annotated[
        list[int] | None, typer.Option(help="Rows per batch. May be repeated.", min=1)
    ] = None,
    steps: Annotated[
        list[int] | None, typer.Option(help="Time steps. May be repeated.", min=1)
    ] = None,
    compile: Annotated[bool, "Also measure torch.compile, which takes minutes."] = False,
    no_peers: NoPeers = False,
    *,
    kernel: KernelOptions,
    table: TableOptions,
    run: RunOptions,
) -> None:
    """Time one bidirectional LSTM layer, forward and training.

    Compares with plain torch and with torch.nn.LSTM, which is cuDNN on a GPU and cannot clip.
    """
    table.check()
    from elmox.bench.lstm import bench_lstm, default_cases

    device = _device(run.device)
    cases = default_cases(device)
    cases = replace(
        cases,
        size=kernel.size.value if kernel.size else cases.size,
        rows=rows or cases.rows,
        steps=steps or cases.steps,
        repeats=kernel.repeats or cases.repeats,
        compile=compile,
        peers=not no_peers,
    )
    report = bench_lstm(
        cases, device, kernel.dtype(device), show_progress_bar=run.show_progress_bar
    )
    table.finish(report, run)


@verb(
    "elmox bench cnn --size small --words 32 --repeats 1",
    "elmox bench cnn --size small --words 32 --repeats 1 --json",
)
def cnn(
    text: TextOption = None,
    words: Annotated[
        int | None,
        typer.Option(
            help="Number of distinct words; 16384 on a GPU, otherwise 256.",
            min=1,
        ),
    ] = None,
    *,
    kernel: KernelOptions,
    table: TableOptions,
    run: RunOptions,
) -> None:
    """Time the character CNN, highways and projection on distinct words, forward and training.

    Compares with plain torch, and with a CNN that computes every position of every word.
    """
    table.check()
    from elmox.bench.cnn import CnnCases, bench_cnn, default_num_words
    from elmox.bench.text import distinct_words
    from elmox.text.tokenize import get_tokenizer

    device = _device(run.device)
    on_gpu = device.type == "cuda"
    number = words or default_num_words(device)
    chosen, num_distinct = distinct_words(text, get_tokenizer("treebank"), number)
    cases = CnnCases(
        kernel.size.value if kernel.size else "original" if on_gpu else "small",
        chosen,
        num_distinct,
        kernel.repeats or (9 if on_gpu else 3),
    )
    report = bench_cnn(cases, device, kernel.dtype(device), show_progress_bar=run.show_progress_bar)
    table.finish(report, run)


@verb(
    "elmox bench train tiny --windows 2 --window-steps 2",
    "elmox bench train tiny --data data/tiny --windows 2 --window-steps 2",
)
def train(
    recipe: RecipeArgument,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Corpus made by elmox prepare; by default the recipe's.",
        ),
    ] = None,
    settings: Settings = None,
    windows: Annotated[int, typer.Option(help="Number of windows; the median counts.", min=1)] = 5,
    window_steps: Annotated[int, typer.Option(help="Training steps per window.", min=1)] = 20,
    *,
    table: TableOptions,
    run: RunOptions,
) -> None:
    """Time the whole training step of a recipe, from the corpus on disk to the update.

    Prints tokens per second and peak memory. The trained weights are discarded.
    """
    table.check()
    from elmox.bench.train import Windows, bench_train
    from elmox.training.recipe import read_recipe

    chosen = read_recipe(recipe, settings or ())
    report = bench_train(chosen, data, _device(run.device), Windows(windows, window_steps))
    table.finish(report, run)


@verb(
    "elmox bench embed english-small --sentences 20 --repeats 1",
    "elmox bench embed --size small --sentences 20 --repeats 1 --file hdf5",
)
def embed(
    model: Annotated[
        str | None, typer.Argument(help="A model; by default random weights of --size.")
    ] = None,
    size: Annotated[Size, "Model size of random weights."] = Size.small,
    text: TextOption = None,
    sentences: Annotated[int, typer.Option(help="Number of sentences.", min=1)] = 500,
    repeats: Repeats = 3,
    one_at_a_time: Annotated[bool, "Also embed sentence by sentence."] = False,
    file: Annotated[ReadableFormat | None, "Also write a file of vectors."] = None,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory for that file, which is removed again.")
    ] = Path("."),
    no_peers: NoPeers = False,
    precision: PrecisionOption = Precision.float32,
    *,
    table: TableOptions,
    run: RunOptions,
) -> None:
    """Time encode_tokens with all layers, first with an empty word cache, then with a filled one.

    Compares with AllenNLP's module if it is installed: pip install --no-deps allennlp==2.10.1
    """
    table.check()
    if file is not None and not folder.is_dir():
        raise ElmoxError(f"--folder {folder} is not a directory: give one with room for vectors")
    from elmox.bench.embed import EmbedCases, bench_embed
    from elmox.bench.text import first_sentences
    from elmox.elmo import Elmo
    from elmox.model.init import random_checkpoint

    device = _device(run.device or ("cpu" if precision is Precision.int8 else None))
    elmo = (
        Elmo.from_pretrained(model, device=device, dtype=precision.value)
        if model
        else Elmo(random_checkpoint(size.value)).to(device, precision.value)
    )
    cases = EmbedCases(
        first_sentences(text, elmo.tokenize, sentences),
        repeats,
        one_at_a_time,
        file.value if file else None,
        folder,
        peers=not no_peers,
    )
    table.finish(bench_embed(elmo, cases), run)


def _device(device: str | None) -> "torch.device":
    from elmox.inference.device import resolve_device

    return resolve_device(device)


app = verb_group(
    "Measure speed on this machine, next to the lower bound of the arithmetic.",
    {"lstm": lstm, "cnn": cnn, "train": train, "embed": embed},
)
