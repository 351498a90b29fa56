"""`elmox tag`: apply a fitted model to text."""

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.options import FILES_HELP, RunOptions, TaskElmo, TextOptions, json_line
from elmox.cli.verb import verb
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.predictor import TaskInput, TaskPredictor
    from elmox.text.lines import LineFormat

INPUTS_AT_ONCE = 1000


@verb(
    "elmox tag runs/names/seed-0/model text.txt",
    "elmox tag runs/names/seed-0/model lines.jsonl",
)
def command(
    model: Annotated[
        str,
        typer.Argument(
            help="A model made by elmox fit, or a ready tagger: english-small/ner, or ner alone."
        ),
    ],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Running text, or with --tokenized a tokenized sentence per line; .jsonl or .csv "
            f"with the task's inputs; {FILES_HELP}; - for stdin.",
        ),
    ],
    json_lines: Annotated[
        bool, "Read TEXT as JSON lines. Implied for stdin if the task accepts only JSON."
    ] = False,
    elmo: TaskElmo = None,
    *,
    lines: TextOptions,
    run: RunOptions,
) -> None:
    """Apply a fitted task model to text.

    Prints one word and its tag per line, and a blank line after each sentence. With --json, for
    JSON lines and tables, and for tasks whose predictions are more than tags, prints one JSON line
    per sentence, document, text or question. For models of documents (coref), a blank line ends a
    document. Taggers (pos, ner, chunk) read a sentence of over 1000 tokens in pieces, with a
    warning.
    """
    from elmox.io.text_files import check_text
    from elmox.tasks.data.tables import is_table
    from elmox.tasks.predictor import TaskPredictor

    if lines.tokenized and json_lines:
        raise ElmoxError(
            "--tokenized and --json-lines: the key of a JSON line says whether it is running text "
            "(text) or tokens (tokens), leave out --tokenized"
        )
    check_text(text)
    predictor = TaskPredictor.from_pretrained(model, elmo=elmo, device=run.device)
    if is_table(text) and not (json_lines or lines.tokenized):
        inputs, as_json = _table_inputs(predictor, Path(text)), True
    else:
        format: LineFormat = "jsonl" if json_lines else lines.line_format(text)
        inputs, as_json = _line_inputs(predictor, text, format), format == "jsonl"
    for chunk in iter(lambda: list(islice(inputs, INPUTS_AT_ONCE)), []):
        with warnings.catch_warnings(record=True) as notices:
            warnings.simplefilter("always", UserWarning)
            outputs = predictor.predict_inputs(chunk)
        for notice in notices:
            run.log(f"warning: {notice.message}")
        for one, output in zip(chunk, outputs, strict=True):
            values = one.extra | output.to_dict()
            if run.as_json or as_json or "tags" not in values:
                typer.echo(json_line(values))
            elif values["tokens"]:  # columns have no empty sentences
                typer.echo(_columns(values))


def _table_inputs(predictor: "TaskPredictor", path: Path) -> Iterator["TaskInput"]:
    """Yield the inputs of a table's rows."""
    from elmox.tasks.data.tables import read_table

    for row in read_table(path):
        try:
            yield from predictor.inputs(row.values)
        except ElmoxError as error:
            raise ElmoxError(f"{row.where}: {error}") from None


def _line_inputs(
    predictor: "TaskPredictor", text: str, format: "LineFormat"
) -> Iterator["TaskInput"]:
    """Yield the inputs of a text's lines."""
    from elmox.io.json_lines import parse_json_lines
    from elmox.io.text_files import STDIN
    from elmox.text.lines import read_lines, text_lines

    name, input_format = text, predictor.input_format
    if format != "jsonl":
        tokenize = str.split if format == "tokenized" else predictor.tokenize
        inputs = input_format.from_lines(read_lines(text, format, tokenize), tokenize)
        if inputs is not None:
            return map(predictor.prepared, inputs)
        keys = ", ".join((*input_format.text_keys, *input_format.required_keys))
        expected = f"{predictor.task.name} reads JSON lines (.jsonl) or tables (.csv) with {keys}"
        if text != STDIN:
            raise ElmoxError(f"{text}: {expected}; if it has JSON lines, give --json-lines")
        name = f"stdin ({expected})"
    parsed = parse_json_lines(text_lines(text), name, predictor.inputs)
    return (one for several in parsed for one in several)


def _columns(values: dict[str, Any]) -> str:
    rows: Iterator[tuple[str, str]] = zip(values["tokens"], values["tags"], strict=True)
    return "".join(f"{word}\t{tag}\n" for word, tag in rows)
