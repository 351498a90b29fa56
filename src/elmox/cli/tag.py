"""`elmox tag`: apply a fitted model to text."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.model_options import Device, Json, Raw, TaskElmo, Tokenized
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.predictor import TaskInput, TaskPredictor
    from elmox.text.lines import LineFormat

INPUTS_AT_ONCE = 1000


def command(
    model: Annotated[
        Path, typer.Argument(help="A model that elmox fit has made.", show_default=False)
    ],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Running text, or with --tokenized a tokenized sentence per line; .jsonl with the "
            "task's inputs; plain or compressed (.gz, .xz, .bz2); - for stdin.",
            show_default=False,
        ),
    ],
    tokenized: Tokenized = False,
    raw: Raw = False,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json-lines",
            help="Read TEXT as JSON lines. Implied for stdin if the task accepts only JSON.",
        ),
    ] = False,
    elmo: TaskElmo = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Apply a fitted model: a word and its tag per line, a blank line after each sentence.

    The output is JSON lines with --json, for JSON lines as input, and for tasks that predict more
    than tags: one line for each sentence, document or question. A blank line ends a document.
    """
    from elmox.tasks.predictor import TaskPredictor
    from elmox.text.lines import check_source, line_format

    if tokenized and json_lines:
        raise ElmoxError(
            "--tokenized and --json-lines: the key of a JSON line says whether it is running text "
            "(text) or tokens (tokens), leave out --tokenized"
        )
    check_source(text)
    predictor = TaskPredictor.from_pretrained(model, elmo=elmo, device=device)
    format: LineFormat = "jsonl" if json_lines else line_format(text, tokenized)
    inputs = _inputs(predictor, text, format)
    for chunk in iter(lambda: list(islice(inputs, INPUTS_AT_ONCE)), []):
        for one, output in zip(chunk, predictor.predict_inputs(chunk), strict=True):
            values = one.extra | output.to_dict()
            if as_json or format == "jsonl" or "tags" not in values:
                typer.echo(json.dumps(values, ensure_ascii=False))
            elif values["tokens"]:  # columns have no empty sentences
                typer.echo(_columns(values))


def _inputs(predictor: "TaskPredictor", text: str, format: "LineFormat") -> Iterator["TaskInput"]:
    """Yield the inputs of a text."""
    from elmox.io.json_lines import parse_json_lines
    from elmox.text.lines import STDIN, read_lines, text_lines

    task = predictor.task
    name = text
    if format != "jsonl":
        lines = read_lines(text, format, predictor.tokenize)
        values = task.input_format.from_lines(line.sentences for line in lines)
        if values is not None:
            return (one for each in values for one in predictor.inputs(each))
        keys = ", ".join((*task.input_format.text_keys, *task.input_format.required_keys))
        expected = f"{task.name} reads JSON lines (.jsonl) with {keys}"
        if text != STDIN:
            raise ElmoxError(f"{text}: {expected}; if it has such lines, give --json-lines")
        name = f"stdin ({expected})"
    parsed = parse_json_lines(text_lines(text), name, predictor.inputs)
    return (one for several in parsed for one in several)


def _columns(values: dict[str, Any]) -> str:
    rows: Iterator[tuple[str, str]] = zip(values["tokens"], values["tags"], strict=True)
    return "".join(f"{word}\t{tag}\n" for word, tag in rows)
