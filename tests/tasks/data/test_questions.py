"""How questions are written: sentences, documents and named texts, in plain text and in JSON."""

import pytest

from elmox.tasks.data.questions import (
    Documents,
    MarkedSentences,
    NamedTexts,
    Question,
    Questions,
    Sentences,
)
from elmox.tasks.registry import TASKS, find_task

LINES = [[], [["a", "b"]], [["c"], ["d"]], [], [], [["e"]], []]


def of_lines(asks: Questions) -> list[Question] | None:
    found = asks.of_lines(LINES)
    return None if found is None else [*found]


def test_plain_text() -> None:
    """Blank lines are empty sentences, so that lines can be counted; or they end documents."""
    sentences = [["a", "b"], ["c"], ["d"], ["e"]]
    first, second, third, last = sentences
    told: list[list[str]] = [[], first, second, third, [], [], last, []]
    assert of_lines(Sentences()) == [{"tokens": own} for own in told]
    assert of_lines(Documents()) == [{"sentences": sentences[:3]}, {"sentences": sentences[3:]}]
    assert of_lines(NamedTexts("premise", "hypothesis")) is None
    assert of_lines(MarkedSentences("predicates")) is None
    assert [*Documents().of_lines([[], []])] == []
    assert [*Documents().of_lines([])] == []


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        ({"text": "He ran. She sat.", "id": 1}, ["He ran.", "She sat."]),
        ({"text": "", "id": 1}, [""]),
        ({"tokens": "He ran. She sat.", "id": 1}, ["He ran. She sat."]),
        ({"tokens": ["a"], "text": "He ran.", "id": 1}, [["a"]]),
        ({"text": ["a"], "id": 1}, [["a"]]),
    ],
)
def test_objects(values: Question, sentences: list[object]) -> None:
    """Running text is as many questions as it has sentences, where questions are sentences."""
    found = Sentences().of_object(values)
    assert found == [{**values, "tokens": own} for own in sentences]
    (marked,) = MarkedSentences("predicates").of_object(values)
    assert marked == {"tokens": values.get("text"), **values}
    assert len(Documents().of_object(values)) == 1
    assert NamedTexts("text", "tokens").of_object(values) == [values]


@pytest.mark.parametrize(
    ("question", "sentences"),
    [
        ({"sentences": ["a b", [], ["c"]], "text": "other"}, [["a", "b"], [], ["c"]]),
        ({"text": "He ran. She sat."}, [["He", "ran."], ["She", "sat."]]),
        ({"tokens": ["He", "ran"], "text": "other"}, [["He", "ran"]]),
        ({"tokens": "He ran. She sat."}, [["He", "ran."], ["She", "sat."]]),
        ({"sentences": [[], " "]}, [[], []]),
        ({"text": ""}, []),
    ],
)
def test_documents(question: Question, sentences: list[list[str]]) -> None:
    asks = Documents()
    (values,) = asks.of_object(question)
    assert asks.split("sentences", values["sentences"], str.split) == sentences


def test_every_task_says_what_it_is_asked() -> None:
    """What is there instead is never what a task reads itself."""
    for name in TASKS:
        asks = find_task(name).asks
        assert asks.keys
        assert not {*asks.keys} & {*asks.instead, *asks.beside}
        assert asks.of_object({"id": 1}) == [{"id": 1}]
