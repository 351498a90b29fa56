"""`elmox tag`: apply a fitted model to text."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.options import RunOptions, TaskElmo, TextOptions
from elmox.cli.verb import verb
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.predictor import Asked, TaskPredictor
    from elmox.text.lines import LineFormat

QUESTIONS_AT_ONCE = 1000


@verb(
    "elmox tag runs/names/seed-0/model text.txt",
    "elmox tag runs/names/seed-0/model lines.jsonl",
)
def command(
    model: Annotated[Path, typer.Argument(help="A model made by elmox fit.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Running text, or with --tokenized a tokenized sentence per line; .jsonl with the "
            "task's inputs; plain or compressed (.gz, .xz, .bz2, .zst); - for stdin.",
        ),
    ],
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json-lines",
            help="Read TEXT as JSON lines. Implied for stdin if the task accepts only JSON.",
        ),
    ] = False,
    elmo: TaskElmo = None,
    *,
    lines: TextOptions,
    run: RunOptions,
) -> None:
    """Apply a fitted task model to text.

    Prints one word and its tag per line, and a blank line after each sentence. With --json, for
    JSON lines, and for tasks whose predictions are more than tags, prints one JSON line per
    sentence, document or question. For models of documents (coref), a blank line ends a document.
    """
    from elmox.io.text_files import check_text
    from elmox.tasks.predictor import TaskPredictor

    if lines.tokenized and json_lines:
        raise ElmoxError(
            "--tokenized and --json-lines: the key of a JSON line says whether it is running text "
            "(text) or tokens (tokens), leave out --tokenized"
        )
    check_text(text)
    fitted = TaskPredictor.load(model, elmo=elmo, device=run.device)
    format: LineFormat = "jsonl" if json_lines else lines.line_format(text)
    asked = _asked(fitted, text, format)
    for chunk in iter(lambda: list(islice(asked, QUESTIONS_AT_ONCE)), []):
        for shown in fitted.shown(chunk):
            if run.as_json or format == "jsonl" or not set(shown) <= {"tokens", "tags", "spans"}:
                typer.echo(json.dumps(shown, ensure_ascii=False))
            elif shown["tokens"]:  # in columns, an empty sentence is none
                typer.echo(_columns(shown))


def _asked(fitted: "TaskPredictor", text: str, format: "LineFormat") -> Iterator["Asked"]:
    """What a text asks."""
    from elmox.io.json_lines import parse_json_lines
    from elmox.io.text_files import STDIN
    from elmox.text.lines import read_lines, text_lines

    task = fitted.task
    name = text
    if format != "jsonl":
        lines = read_lines(text, format, fitted.tokenize)
        questions = task.asks.of_lines(line.sentences for line in lines)
        if questions is not None:
            return (own for question in questions for own in fitted.asked(question))
        keys = ", ".join((*task.asks.keys, *task.asks.beside))
        wanted = f"{task.name} reads JSON lines (.jsonl) with {keys}"
        if text != STDIN:
            raise ElmoxError(f"{text}: {wanted}; if it holds such lines, give --json-lines")
        name = f"stdin ({wanted})"
    found = parse_json_lines(text_lines(text), name, fitted.asked)
    return (own for several in found for own in several)


def _columns(shown: dict[str, Any]) -> str:
    rows: Iterator[tuple[str, str]] = zip(shown["tokens"], shown["tags"], strict=True)
    return "".join(f"{word}\t{tag}\n" for word, tag in rows)
