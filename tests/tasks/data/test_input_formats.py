"""Unlabeled inputs: sentences, documents and named texts, in plain text and as mappings."""

from typing import Any

import pytest

from elmox.tasks.data.input_formats import (
    DocumentInput,
    InputFormat,
    MarkedSentenceInput,
    NamedTextsInput,
    SentenceInput,
    Values,
)
from elmox.tasks.registry import TASKS, find_task

LINES = [[], [["a", "b"]], [["c"], ["d"]], [], [], [["e"]], []]


def from_lines(input_format: InputFormat) -> list[Values] | None:
    inputs = input_format.from_lines(LINES)
    return None if inputs is None else [*inputs]


def test_plain_text() -> None:
    """Blank lines are empty sentences, so that lines can be counted; or they end documents."""
    sentences = [["a", "b"], ["c"], ["d"], ["e"]]
    first, second, third, last = sentences
    expected: list[list[str]] = [[], first, second, third, [], [], last, []]
    assert from_lines(SentenceInput()) == [{"tokens": sentence} for sentence in expected]
    documents = [{"sentences": sentences[:3]}, {"sentences": sentences[3:]}]
    assert from_lines(DocumentInput()) == documents
    assert from_lines(NamedTextsInput("premise", "hypothesis")) is None
    assert from_lines(MarkedSentenceInput("predicates")) is None
    assert [*DocumentInput().from_lines([[], []])] == []
    assert [*DocumentInput().from_lines([])] == []


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
def test_mappings(values: Values, sentences: list[object]) -> None:
    """Running text is as many inputs as it has sentences, where inputs are sentences."""
    inputs = SentenceInput().split_mapping(values)
    assert inputs == [{**values, "tokens": sentence} for sentence in sentences]
    whole = {"tokens": values.get("text"), **values}
    assert SentenceInput().from_mapping(values) == whole
    assert MarkedSentenceInput("predicates").split_mapping(values) == [whole]
    assert len(DocumentInput().split_mapping(values)) == 1
    assert NamedTextsInput("text", "tokens").split_mapping(values) == [values]


@pytest.mark.parametrize(
    ("document", "sentences"),
    [
        ({"sentences": ["a b", [], ["c"]], "text": "other"}, [["a", "b"], [], ["c"]]),
        ({"text": "He ran. She sat."}, [["He", "ran."], ["She", "sat."]]),
        ({"tokens": ["He", "ran"], "text": "other"}, [["He", "ran"]]),
        ({"tokens": "He ran. She sat."}, [["He", "ran."], ["She", "sat."]]),
        ({"sentences": [[], " "]}, [[], []]),
        ({"text": ""}, []),
    ],
)
def test_documents(document: dict[str, Any], sentences: list[list[str]]) -> None:
    values = DocumentInput().from_mapping(document)
    assert DocumentInput().split("sentences", values["sentences"], str.split) == sentences


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_an_input_format(name: str) -> None:
    """An alternative key is never one that the task reads itself."""
    input_format = find_task(name).input_format
    assert input_format.text_keys
    others = {*input_format.alternative_keys, *input_format.required_keys}
    assert not {*input_format.text_keys} & others
    assert input_format.split_mapping({"id": 1}) == [{"id": 1}]
