"""`elmox tag`: apply a fitted model to text."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmox.cli.model_options import Device, FittedElmo, Json, Raw, TextFile
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.tasks.fitted import Fitted

QUESTIONS_AT_ONCE = 1000


def command(
    model: Annotated[
        Path, typer.Argument(help="A model that elmox fit has made.", show_default=False)
    ],
    text: TextFile,
    raw: Raw = False,
    elmo: FittedElmo = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Apply a fitted model: a word and its tag a line, a blank line after each sentence.

    With --json, for JSON lines, and for tasks that give more than tags, a JSON line for each
    sentence, document or question. Where a model is about documents (coref), a blank line ends one.
    """
    from elmox.bulk.lines import check_source, line_format
    from elmox.tasks.fitted import Fitted

    check_source(text)
    fitted = Fitted.load(model, elmo=elmo, device=device)
    lines_of_json = line_format(text, raw) == "jsonl"
    questions = _json_questions(fitted, text) if lines_of_json else _questions(fitted, text, raw)
    for chunk in iter(lambda: list(islice(questions, QUESTIONS_AT_ONCE)), []):
        for shown in fitted.ask(chunk):
            plain = not (as_json or lines_of_json) and set(shown) <= {"tokens", "tags", "spans"}
            typer.echo(_columns(shown) if plain else json.dumps(shown, ensure_ascii=False))


def _questions(fitted: "Fitted", text: str, raw: bool) -> Iterator[dict[str, Any]]:
    """What a plain text asks."""
    from elmox.bulk.lines import line_format, read_lines

    task = fitted.task
    lines = read_lines(text, line_format(text, raw), fitted.tokenize)
    questions = task.asks.of_lines(line.sentences for line in lines)
    if questions is None:
        keys = ", ".join(task.asks.keys)
        raise ElmoxError(f"{text}: {task.name} reads JSON lines (.jsonl) with {keys}")
    return questions


def _json_questions(fitted: "Fitted", text: str) -> Iterator[dict[str, Any]]:
    """What JSON lines ask."""
    from elmox.readers.json_lines import read_json_lines

    for values in read_json_lines(Path(text), fitted.checked):
        yield from fitted.task.asks.of_object(values, fitted.tokenize)


def _columns(shown: dict[str, Any]) -> str:
    rows: Iterator[tuple[str, str]] = zip(
        shown.get("tokens", []), shown.get("tags", []), strict=True
    )
    return "".join(f"{word}\t{tag}\n" for word, tag in rows)
