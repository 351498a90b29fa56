"""What task models find, drawn from a server's predictions, against Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from explorer_page import Explorer

from elmox import TaskPredictor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TEXT = "Ada Lovelace met the cat. Charles slept in New York."


@pytest.fixture
def tab(browser: "Browser", server_url: str) -> Iterator[Explorer]:
    """The page on a server with task models."""
    with Explorer.open(browser, server_url) as explorer:
        yield explorer


def predictions(taggers: dict[str, Path], task: str, **values: Any) -> list[dict[str, Any]]:
    return TaskPredictor.from_pretrained(taggers[task], device="cpu").predict_json(values)


def test_names(tab: Explorer, taggers: dict[str, Path]) -> None:
    """A figure per sentence, with a box per span."""
    tab.show("tags", t=TEXT, tagger="ner")
    expected = predictions(taggers, "ner", text=TEXT)
    assert sum(len(sentence["spans"]) for sentence in expected) > 0
    for number, sentence in enumerate(expected):
        rows = [
            [
                " ".join(sentence["tokens"][s["start"] : s["end"]]),
                s["label"],
                str(s["start"] + 1),
                str(s["end"]),
            ]
            for s in sentence["spans"]
        ]
        assert tab.rows(number) == rows
        figure = tab.figure(number)
        assert figure.locator("svg text.word").all_text_contents() == sentence["tokens"]
        assert figure.locator("svg text.label").all_text_contents() == [row[1] for row in rows]


def test_parts_of_speech(tab: Explorer, taggers: dict[str, Path]) -> None:
    tab.show("tags", t=TEXT, tagger="pos")
    for number, sentence in enumerate(predictions(taggers, "pos", text=TEXT)):
        shown = [(word, tag) for _, word, tag in tab.rows(number)]
        assert shown == list(zip(sentence["tokens"], sentence["tags"], strict=True))


def test_dependencies(tab: Explorer, taggers: dict[str, Path]) -> None:
    """An arc for each word except the root."""
    tab.show("tags", t=TEXT, tagger="ner")
    tab.figure()
    tab.page.get_by_role("group", name="Task model").get_by_text("parse").click()
    tab.page.locator("svg path.arc").first.wait_for()
    for number, sentence in enumerate(predictions(taggers, "parse", text=TEXT)):
        tokens, heads = sentence["tokens"], sentence["heads"]
        words = ["root", *tokens]
        assert [row[1:] for row in tab.rows(number)] == [
            [token, words[head], relation]
            for token, head, relation in zip(tokens, heads, sentence["deprels"], strict=True)
        ]
        assert tab.figure(number).locator("path.arc").count() == len(tokens) - heads.count(0)


def test_roles_of_a_chosen_verb(tab: Explorer, taggers: dict[str, Path]) -> None:
    tab.show("tags", t="Ada gave him the book", tagger="srl", predicate="0")
    tab.figure()
    tab.page.get_by_role("group", name="Verb").get_by_text("gave").click()
    tab.page.get_by_role("heading", name="Roles of “gave”").wait_for()
    tokens = ["Ada", "gave", "him", "the", "book"]
    [expected] = predictions(taggers, "srl", tokens=tokens, predicates=[1])
    [proposition] = expected["propositions"]
    assert tab.rows() == [
        [" ".join(tokens[span["start"] : span["end"]]), span["label"]]
        for span in proposition["arguments"]
    ]


def test_a_page_without_task_models(browser: "Browser", static_url: str) -> None:
    with Explorer.open(browser, static_url) as explorer:
        explorer.show("tags")
        explorer.page.get_by_text("this view needs elmox serve").wait_for()


@pytest.mark.parametrize(("text", "message"), [(" ", "Type a sentence."), ("a " * 1500, "3,000")])
def test_texts_that_are_refused(tab: Explorer, text: str, message: str) -> None:
    tab.show("tags", t=text)
    assert message in tab.message()
