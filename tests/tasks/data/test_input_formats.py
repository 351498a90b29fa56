"""Unlabeled inputs: sentences, documents and named texts, in plain text and as mappings."""

from typing import Any

import pytest

from elmox.errors import ElmoxError
from elmox.tasks.data.input_formats import (
    DocumentInput,
    InputFormat,
    MarkedSentenceInput,
    NamedTextsInput,
    SentenceInput,
    TextInput,
    TokenizedInput,
    Values,
)
from elmox.tasks.registry import TASKS, find_task
from elmox.text.lines import Line

TEXTS = ["", "a b", "c  d", "", " ", "e", ""]
LINES = [
    Line(list(sentences), text)
    for text, sentences in zip(
        TEXTS, ([], [["a", "b"]], [["c"], ["d"]], [], [], [["e"]], []), strict=True
    )
]


def from_lines(input_format: InputFormat) -> list[TokenizedInput] | None:
    inputs = input_format.from_lines(LINES, str.split)
    return None if inputs is None else [*inputs]


def test_plain_text() -> None:
    """Blank lines are empty sentences, so that lines can be counted; or they end documents."""
    sentences = from_lines(SentenceInput())
    assert sentences is not None
    assert [(one.values["line"], one.values["tokens"]) for one in sentences] == [
        (1, []),
        (2, ["a", "b"]),
        (3, ["c"]),
        (3, ["d"]),
        (4, []),
        (5, []),
        (6, ["e"]),
        (7, []),
    ]
    assert sentences[3].offsets == {"tokens": [(3, 4)]}  # in its line
    documents = from_lines(DocumentInput())
    assert documents == [
        TokenizedInput(
            {"line": 2, "sentences": [["a", "b"], ["c"], ["d"]]},
            {"sentences": [[(0, 1), (2, 3)], [(4, 5)], [(7, 8)]]},  # in "a b\nc  d"
        ),
        TokenizedInput({"line": 6, "sentences": [["e"]]}, {"sentences": [[(0, 1)]]}),
    ]
    assert from_lines(NamedTextsInput("premise", "hypothesis")) is None
    assert from_lines(MarkedSentenceInput("predicates")) is None
    assert [*DocumentInput().from_lines([Line([]), Line([])], str.split)] == []
    assert [*DocumentInput().from_lines([], str.split)] == []


@pytest.mark.parametrize(
    ("values", "sentences", "offsets"),
    [
        (
            {"text": "He ran.  She sat.", "id": 1},
            [["He", "ran."], ["She", "sat."]],
            [[(0, 2), (3, 7)], [(9, 12), (13, 17)]],
        ),
        ({"text": "", "id": 1}, [[]], [[]]),
        (
            {"tokens": "He ran. She", "id": 1},
            [["He", "ran.", "She"]],
            [[(0, 2), (3, 7), (8, 11)]],
        ),
        ({"tokens": ["a"], "text": "He ran.", "id": 1}, [["a"]], [None]),
        ({"text": ["a"], "id": 1}, [["a"]], [None]),
    ],
)
def test_mappings(values: Values, sentences: list[list[str]], offsets: list[Any]) -> None:
    """Running text is as many inputs as it has sentences, where inputs are sentences."""
    inputs = SentenceInput().split_mapping(values, str.split)
    assert [one.values for one in inputs] == [{**values, "tokens": tokens} for tokens in sentences]
    assert [one.offsets.get("tokens") for one in inputs] == offsets
    whole = [token for sentence in sentences for token in sentence]
    one = SentenceInput().from_mapping(values, str.split)
    assert one.values == {**values, "tokens": whole}
    assert MarkedSentenceInput("predicates").split_mapping(values, str.split) == [one]
    assert len(DocumentInput().split_mapping(values, str.split)) == 1


def test_whole_texts() -> None:
    """A text is one input, whatever its key and its sentences; every line of a file is one."""
    whole = TextInput("review")
    for key in ("review", "text"):
        one = whole.from_mapping({key: "Good. Very good.", "id": 1}, str.split)
        assert one.values["review"] == ["Good.", "Very", "good."]
        assert one.strings == {"review": "Good. Very good."}
    assert whole.from_mapping({"tokens": ["Good"]}, str.split).strings == {}
    lines = [one.values["review"] for one in whole.from_lines(LINES, str.split)]
    assert lines == [[], ["a", "b"], ["c", "d"], [], [], ["e"], []]
    with pytest.raises(ElmoxError, match="the keys are id, expected review or text or tokens"):
        whole.from_mapping({"id": 1}, str.split)


def test_named_texts() -> None:
    texts = NamedTextsInput("premise", "hypothesis")
    values = {"premise": "It  rains", "hypothesis": ["Wet"], "id": 3}
    one = texts.from_mapping(values, str.split)
    assert one.values == {"premise": ["It", "rains"], "hypothesis": ["Wet"], "id": 3}
    assert one.offsets == {"premise": [(0, 2), (4, 9)]}
    assert one.strings == {"premise": "It  rains"}
    with pytest.raises(ElmoxError, match="the keys are premise, expected premise and hypothesis"):
        texts.from_mapping({"premise": "a"}, str.split)


@pytest.mark.parametrize(
    ("document", "sentences", "offsets"),
    [
        ({"sentences": ["a b", [], ["c"]], "text": "other"}, [["a", "b"], [], ["c"]], None),
        (
            {"text": "He ran. She sat."},
            [["He", "ran."], ["She", "sat."]],
            [[(0, 2), (3, 7)], [(8, 11), (12, 16)]],
        ),
        ({"tokens": ["He", "ran"], "text": "other"}, [["He", "ran"]], None),
        ({"sentences": [[], " "]}, [[], []], None),
        ({"text": ""}, [], []),
    ],
)
def test_documents(document: Values, sentences: list[list[str]], offsets: Any) -> None:
    one = DocumentInput().from_mapping(document, str.split)
    assert one.values["sentences"] == sentences
    assert one.offsets.get("sentences") == offsets


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_an_input_format(name: str) -> None:
    """An alternative key is never one that the task reads itself."""
    input_format = find_task(name).input_format
    assert input_format.text_keys
    others = {*input_format.alternative_keys, *input_format.required_keys}
    assert not {*input_format.text_keys} & others
    with pytest.raises(ElmoxError, match="the keys are id, expected "):
        input_format.split_mapping({"id": 1}, str.split)
