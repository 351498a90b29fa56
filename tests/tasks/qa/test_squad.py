"""SQuAD's JSON: answers must stand where they log, and either there are some or none."""

import json
from pathlib import Path
from typing import Any

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.qa.questions import Answer, Question
from elmox.tasks.qa.squad import read_squad

XQUAD = SHARED / "tasks" / "qa_xquad_en" / "xquad.en.json"

CONTEXT = "  Émile fell. Émile!"  # SQuAD has contexts with blanks in front, and places count them


def asked(name: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": f"What is {name}?", "answers": given, **more}


def squad(*questions: Any, context: Any = CONTEXT) -> dict[str, Any]:
    return {"version": "1.1", "data": [{"paragraphs": [{"context": context, "qas": questions}]}]}


def read(folder: Path, values: Any) -> list[Question]:
    path = folder / "squad.json"
    path.write_text(json.dumps(values, indent=1), "utf-8")
    return read_squad(path)


def test_version_1(tmp_path: Path) -> None:
    first = asked("1", ("Émile", 2), ("Émile", 14), ("Émile", 2))
    values = squad(first, asked("2", ("fell", 8)))
    values["data"] += squad(asked("3", ("a", 0)), context="a")["data"]
    answers = (Answer("Émile", 2), Answer("Émile", 14), Answer("Émile", 2))
    assert read(tmp_path, values) == [
        Question("1", CONTEXT, "What is 1?", answers),
        Question("2", CONTEXT, "What is 2?", (Answer("fell", 8),)),
        Question("3", "a", "What is 3?", (Answer("a", 0),)),
    ]


def test_version_2(tmp_path: Path) -> None:
    plausible = [{"text": "fell", "answer_start": 8}]
    none = asked("1", is_impossible=True, plausible_answers=plausible)
    some = asked("2", ("fell", 8), is_impossible=False)
    assert read(tmp_path, squad(none, some)) == [
        Question("1", CONTEXT, "What is 1?", (), is_impossible=True),
        Question("2", CONTEXT, "What is 2?", (Answer("fell", 8),)),
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r", the whole: \[\], expected an object"),
        ({}, ", the whole: data is None, expected a list"),
        ({"data": [{}]}, ", article 1: paragraphs is None, expected a list"),
        ({"data": [{"paragraphs": []}]}, " has no questions"),
        (squad(), " has no questions"),
        ({"data": [{"paragraphs": [3]}]}, ", article 1, paragraph 1: 3, expected an object"),
        (squad(context=None), ", article 1, paragraph 1: context is None, expected a string"),
        (squad("q"), ", article 1, paragraph 1: 'q', expected an object"),
        (squad({"id": 3}), ", article 1, paragraph 1: id is 3, expected a string"),
        (squad({"id": "1"}), ", question 1: answers is None, expected a list"),
        (squad(asked("1", ("a", 0))), r", question 1: the answer 'a' is not at character 0 .* ' '"),
        (squad(asked("1", ("!", -1))), ", question 1: the answer '!' is not at character -1"),
        (squad(asked("1", ("fell", 99))), ", question 1: the answer 'fell' is not at .* '' stands"),
        (squad(asked("1", ("", 2))), ", question 1: an answer is {'text': '', 'answer_start': 2}"),
        (squad({**asked("1"), "answers": [{"text": "fell"}]}), ", question 1: an answer is {'te"),
        (squad({**asked("1"), "answers": ["fell"]}), ", question 1: 'fell', expected an object"),
        (squad(asked("1")), ", question 1: it is possible but has no answers"),
        (squad(asked("1", ("fell", 8), is_impossible=True)), ", question 1: it is impossible but"),
        (squad(asked("1", is_impossible="yes")), ", question 1: is_impossible is 'yes', expected"),
        (squad(asked("1", ("fell", 8), question=None)), ", question 1: question is None, expected"),
        (squad(*[asked("1", ("fell", 8))] * 2), ", question 1: another one has this id already"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused(tmp_path: Path, values: Any, message: str) -> None:
    with pytest.raises(ElmoxError, match=f"squad.json{message}") as failure:
        read(tmp_path, values)
    assert "\n" not in str(failure.value)


def test_files_that_are_not_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "squad.json"
    path.write_text('{"data":\n[}')
    with pytest.raises(ElmoxError, match=r"squad.json, line 2: not JSON"):
        read_squad(path)


@pytest.mark.skipif(not XQUAD.exists(), reason=f"no XQuAD at {XQUAD} (set ELMOX_SHARED)")
def test_the_real_xquad() -> None:
    questions = read_squad(XQUAD)
    assert len(questions) == 1190
    assert len({question.context for question in questions}) == 240
    assert {len(question.answers) for question in questions} == {1}
