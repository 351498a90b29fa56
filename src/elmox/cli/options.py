"""Options that verbs share: one name, one meaning and one help text each.

Types of single options come first, then groups of them: a verb with a parameter of the type
`RunOptions` has all the options that are its fields (see `verb`).
"""

import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from elmox.config import BUNDLED
from elmox.pretrained.formats import FORMATS
from elmox.threads import MOST_THREADS, set_threads

if TYPE_CHECKING:
    from elmox.elmo import Elmo
    from elmox.inference.layer_choice import Layers
    from elmox.model.checkpoint import Checkpoint
    from elmox.text.lines import LineFormat, Tokenize


class FileType(StrEnum):
    """Data type of numbers in a file."""

    float32 = "float32"
    float16 = "float16"


class WeightType(StrEnum):
    """Number format of stored weights."""

    float16 = "float16"
    float32 = "float32"
    int8 = "int8"


class Precision(StrEnum):
    """Precision of the computation."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int8 = "int8"


class State(StrEnum):
    """The LSTM state that every sentence starts from."""

    zero = "zero"
    warm = "warm"


ModelArgument: TypeAlias = Annotated[
    str,
    typer.Argument(help=f"{BUNDLED} (comes with elmox), {', '.join(FORMATS)}, or a Hub id."),
]
FILES_HELP = "plain or compressed (.gz, .xz, .bz2, .zst)"
TEXT_HELP = (
    f"Running text, {FILES_HELP}; .jsonl with text or tokens; - for stdin. With --tokenized, one "
    "tokenized sentence per line."
)
TextArgument: TypeAlias = Annotated[str, typer.Argument(help=TEXT_HELP)]
HeldOutText: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Held-out text, as TEXT. May be repeated."),
]
OutDirectory: TypeAlias = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Directory to create.")
]
Force: TypeAlias = Annotated[bool, "Overwrite an existing output."]
BatchTokens: TypeAlias = Annotated[
    int | None, typer.Option(help="Maximum number of tokens per batch.", min=1)
]
LayersOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--layers",
        metavar="LAYERS",
        help="all, average, top, mix, mix:NAME, one index (1) or several (0,2).",
    ),
]
PrecisionOption: TypeAlias = Annotated[
    Precision, typer.Option("--precision", help="Precision of the computation.")
]
FileTypeOption: TypeAlias = Annotated[
    FileType, typer.Option("--dtype", help="Data type of the numbers in the output.")
]
DeviceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DEVICE", help="cpu, cuda or cuda:1; by default a GPU if there is one."
    ),
]
TaskElmo: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--elmo",
        metavar="MODEL",
        help="The fitted model's biLM, if it has moved.",
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe; KEY is section.name. May be repeated.",
    ),
]


def above_zero(value: float | None) -> float | None:
    """Refuse an option that is not a finite number above 0."""
    if value is not None and not 0 < value < math.inf:
        raise typer.BadParameter(f"{value:g} is not a number above 0.")
    return value


SecondsOption: TypeAlias = Annotated[
    float, typer.Option("--seconds", help="Seconds to measure.", callback=above_zero)
]


def parse_layers(text: str) -> "Layers":
    """Return `1` as a number, `0,2` as a list, and any other text as a name."""
    try:
        numbers = [int(number) for number in text.split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers


def command_line() -> str:
    """Return the command that is running, for a report."""
    return shlex.join(["elmox", *sys.argv[1:]])


def json_line(values: Any) -> str:
    """Return JSON with readable characters, unless stdout cannot show them.

    NaN and infinite numbers are null, because JSON has neither.
    """
    try:
        line = json.dumps(values, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json_line(_with_null(values))
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(values)
    return line


def _with_null(value: Any) -> Any:
    """Return the same JSON value with null in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _with_null(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_null(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class PrintOptions:
    """Output of a verb: data on stdout, messages and progress on stderr."""

    quiet: Annotated[
        bool,
        # Eager: options that print something themselves look at it.
        typer.Option("--quiet", is_eager=True, help="Print no messages and no progress bar."),
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False

    @property
    def show_progress_bar(self) -> bool:
        """Whether stderr is a terminal that may show a progress bar."""
        return not self.quiet and sys.stderr.isatty()

    def log(self, message: str) -> None:
        """Print a message on stderr."""
        if not self.quiet:
            typer.echo(f"elmox: {message}", err=True)

    def result(self, values: Any, text: str | Iterable[str]) -> None:
        """Print a result on stdout.

        Args:
            values: what `--json` prints.
            text: lines for people, or one text that ends in a newline.
        """
        if self.as_json:
            typer.echo(json_line(values))
        elif isinstance(text, str):
            typer.echo(text, nl=False)
        else:
            for line in text:
                typer.echo(line)


def _set_threads(threads: int | None) -> int | None:
    if threads is not None:
        set_threads(threads)
    return threads


@dataclass(frozen=True)
class RunOptions(PrintOptions):
    """Device, threads and output of a verb."""

    device: DeviceOption = None
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_THREADS,
            envvar="ELMOX_THREADS",
            callback=_set_threads,
            help="CPU threads; by default $ELMOX_THREADS, or one per core.",
        ),
    ] = None


@dataclass(frozen=True)
class ComputeOptions(RunOptions):
    """The same, for verbs that compute vectors in any precision."""

    precision: PrecisionOption = Precision.float32


@dataclass(frozen=True)
class ModelOptions:
    """Options of loading a model: files of legacy weights, the revision of a Hub id."""

    options: Annotated[Path | None, "Options file of legacy weights, if it is elsewhere."] = None
    vocab: Annotated[
        Path | None, "Vocabulary of a legacy word model, or of a TensorFlow checkpoint."
    ] = None
    token_embeddings: Annotated[Path | None, "Cached token vectors of bilm-tf; needs --vocab."] = (
        None
    )

    revision: Annotated[
        str | None, typer.Option(metavar="REV", help="Branch, tag or commit of a Hub id.")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of `Elmo.from_pretrained`."""
        return dict(vars(self))

    def loading(self, run: RunOptions, precision: Precision, state: State) -> dict[str, Any]:
        """Return all arguments of `Elmo.from_pretrained` except the model."""
        arguments = {"state": state.value, "device": run.device, "dtype": precision.value}
        return {**self.arguments(), **arguments}

    def load(
        self,
        model: str,
        run: RunOptions,
        precision: Precision = Precision.float32,
        state: State = State.zero,
    ) -> "Elmo":
        """Load a model."""
        # oneDNN keeps compiled code for the last thousand shapes, some 500 MB after a few million
        # tokens; the last 64 are as fast. It reads the variable when it is first used.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        from elmox.elmo import Elmo

        return Elmo.from_pretrained(model, **self.loading(run, precision, state))

    def load_checkpoint(self, model: str) -> "Checkpoint":
        """Load a model's weights."""
        from elmox.pretrained.load import load_checkpoint

        return load_checkpoint(model, **self.arguments())


@dataclass(frozen=True)
class LanguageModelOptions(ModelOptions):
    """The same, for verbs that use the softmax."""

    softmax: Annotated[Path | None, "AI2's softmax file, for a model without a softmax."] = None
    softmax_vocab: Annotated[Path | None, "Vocabulary of --softmax."] = None


def _note_raw(ctx: typer.Context, raw: bool) -> bool:
    if raw and not ctx.params.get("quiet"):
        typer.echo("elmox: --raw is deprecated: running text is the default now", err=True)
    return raw


@dataclass(frozen=True)
class TextOptions:
    """Format of lines of text."""

    tokenized: Annotated[bool, "The text is tokenized, one sentence per line: split at spaces."] = (
        False
    )
    raw: Annotated[bool, typer.Option(hidden=True, callback=_note_raw)] = False

    def line_format(self, path: str) -> "LineFormat":
        """Return the format of a file's lines."""
        from elmox.text.lines import line_format

        return line_format(path, self.tokenized)

    def sentences(self, path: str, tokenize: "Tokenize") -> Iterator[list[str]]:
        """Read the sentences of a file."""
        from elmox.text.lines import read_lines

        for line in read_lines(path, self.line_format(path), tokenize):
            yield from line.sentences
