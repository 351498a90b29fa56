"""Questions in SQuAD's JSON, version 1.1 (every question has answers) or 2.0 (some have none).

    {"data": [{"paragraphs": [{"context": "It fell.", "qas": [
        {"id": "1", "question": "What fell?", "answers": [{"text": "It", "answer_start": 0}]},
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": true}]}]}]}

Many data sets have taken over the format, XQuAD among them. An answer must stand in the text where
it says it does. The plausible but wrong answers of version 2.0 are left out.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.json_lines import check_json_text, string_field
from elmox.io.text_files import open_text
from elmox.tasks.qa.questions import Answer, Question


def read_squad(path: Path) -> list[Question]:
    """The questions of a file, plain or compressed, in its order.

    Raises:
        ElmoxError: the file is malformed; the message names the line (of what is not JSON), the
            paragraph or the question, and what was expected.
    """
    questions: dict[str, Question] = {}
    for where, paragraph in _paragraphs(path):
        try:
            context = string_field(_object(paragraph), "context")
            asked = _list_field(paragraph, "qas")
        except ElmoxError as error:
            raise ElmoxError(f"{path}, {where}: {error}") from None
        for values in asked:
            question = _question(path, where, context, values)
            if question.id in questions:
                raise ElmoxError(f"{path}, question {question.id}: another one has this id already")
            questions[question.id] = question
    if not questions:
        raise ElmoxError(f"{path} has no questions: expected SQuAD's data, paragraphs and qas")
    return list(questions.values())


def _paragraphs(path: Path) -> Iterator[tuple[str, Any]]:
    """The paragraphs of all articles, each with its place in words."""
    with open_text(path) as file:
        text = file.read()
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ElmoxError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except ValueError as error:  # a number of too many digits
        raise ElmoxError(f"{path} is not SQuAD's JSON: {error}") from None
    except RecursionError:
        raise ElmoxError(f"{path} is nested too deeply, expected SQuAD's JSON") from None
    where = "the whole"
    try:
        check_json_text(text, values)
        for article_number, article in enumerate(_list_field(values, "data"), start=1):
            where = f"article {article_number}"
            for number, paragraph in enumerate(_list_field(article, "paragraphs"), start=1):
                yield f"{where}, paragraph {number}", paragraph
    except ElmoxError as error:
        raise ElmoxError(f"{path}, {where}: {error}") from None


def _question(path: Path, where: str, context: str, values: Any) -> Question:
    try:
        name = string_field(_object(values), "id")
    except ElmoxError as error:
        raise ElmoxError(f"{path}, {where}: {error}") from None
    try:
        answers = tuple(_answer(context, answer) for answer in _list_field(values, "answers"))
        is_impossible = values.get("is_impossible", False)
        if not isinstance(is_impossible, bool):
            raise ElmoxError(f"is_impossible is {is_impossible!r:.60}, expected true or false")
        if is_impossible == bool(answers):
            given = "is impossible but has" if is_impossible else "is possible but has no"
            raise ElmoxError(f"it {given} answers, expected answers or is_impossible, not both")
        return Question(name, context, string_field(values, "question"), answers, is_impossible)
    except ElmoxError as error:
        raise ElmoxError(f"{path}, question {name}: {error}") from None


def _answer(context: str, values: Any) -> Answer:
    text, start = string_field(_object(values), "text"), values.get("answer_start")
    if type(start) is not int or not text:
        raise ElmoxError(f"an answer is {values!r:.60}, expected its text and answer_start")
    if start < 0 or not context.startswith(text, start):
        actual = context[max(start, 0) : max(start, 0) + len(text)]
        raise ElmoxError(
            f"the answer {text!r:.60} is not at character {start} of the context, "
            f"where {actual!r:.60} stands"
        )
    return Answer(text, start)


def _object(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ElmoxError(f"{values!r:.60}, expected an object")
    return values


def _list_field(values: Any, name: str) -> list[Any]:
    value = _object(values).get(name)
    if not isinstance(value, list):
        raise ElmoxError(f"{name} is {value!r:.60}, expected a list")
    return value
