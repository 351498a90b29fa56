"""What a task is asked: how its questions are written, in plain text and in JSON lines.

| a question is | in a JSON line | in plain text |
|---|---|---|
| a sentence | `tokens`; every sentence of `text` is one | every sentence |
| a document | `sentences`, or `text`, or `tokens` of its only sentence | all up to a blank line |
| several texts | each by its own name | not to be written so |

A text is a list of tokens, or a string, which the tokeniser splits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from elmox.bulk.lines import Tokenize
from elmox.errors import ElmoxError
from elmox.tasks.texts import Sentence
from elmox.text.sentences import split_sentences

Question = dict[str, Any]


class Questions(Protocol):
    """The questions of a task.

    Attributes:
        keys: what the task reads of a question.
        instead: keys under which a question may have its text instead.
    """

    keys: tuple[str, ...]
    instead: tuple[str, ...]

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Question] | None:
        """The questions of a plain text; None where they cannot be written so.

        Args:
            lines: the sentences of each line, none of a blank one.
        """
        ...

    def of_object(self, values: Mapping[str, Any], tokenize: Tokenize) -> Iterator[Question]:
        """The questions of a JSON line."""
        ...

    def filled(self, question: Mapping[str, Any]) -> Question:
        """The same question, with what is there `instead` under the task's own key too."""
        ...

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sequence[Any]:
        """The tokens of what a key has; nothing where there are none."""
        ...


class Sentences:
    """Every question is a sentence; a `Questions`."""

    keys: tuple[str, ...] = ("tokens",)
    instead: tuple[str, ...] = ("text",)

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Question]:
        """Every sentence."""
        return ({"tokens": sentence} for line in lines for sentence in line)

    def of_object(self, values: Mapping[str, Any], tokenize: Tokenize) -> Iterator[Question]:
        """The sentence of a line, or every sentence of its running text."""
        if "tokens" in values or not isinstance(values.get("text"), str):
            yield dict(values)
            return
        others = {key: value for key, value in values.items() if key != "text"}
        for sentence in split_sentences(values["text"]):
            yield {**others, "tokens": tokenize(sentence)}

    def filled(self, question: Mapping[str, Any]) -> Question:
        """A text is one sentence."""
        if "tokens" in question or "text" not in question:
            return dict(question)
        return {**question, "tokens": question["text"]}

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """The words of the sentence."""
        return _tokens(key, text, tokenize)


class Documents:
    """Every question is a document, all its sentences; a `Questions`."""

    keys: tuple[str, ...] = ("sentences",)
    instead: tuple[str, ...] = ("tokens", "text")

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Question]:
        """A blank line, or several, ends a document, as in text that a biLM is trained on."""
        sentences: list[Sentence] = []
        for line in lines:
            if not line and sentences:
                yield {"sentences": sentences}
                sentences = []
            sentences += line
        if sentences:
            yield {"sentences": sentences}

    def of_object(self, values: Mapping[str, Any], tokenize: Tokenize) -> Iterator[Question]:
        """The document of a line."""
        yield dict(values)

    def filled(self, question: Mapping[str, Any]) -> Question:
        """The sentences of a text; tokens are those of one sentence."""
        found = [question[key] for key in self.instead if key in question]
        if "sentences" in question or not found:
            return dict(question)
        text = found[0]
        return {**question, "sentences": split_sentences(text) if isinstance(text, str) else [text]}

    def split(self, key: str, text: Any, tokenize: Tokenize) -> list[Sentence]:
        """The words of each sentence; empty ones keep their place, if not all are empty."""
        if not isinstance(text, list | tuple):
            raise ElmoxError(f"{key} is {text!r:.60}, expected a list of sentences")
        found = [_tokens("a sentence", own, tokenize) for own in text]
        return found if any(found) else []


class NamedTexts:
    """Every question has several texts; a `Questions`."""

    instead: tuple[str, ...] = ()

    def __init__(self, *keys: str) -> None:
        """Name the texts."""
        self.keys = keys

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> None:
        """Not to be told apart in plain text."""
        return None

    def of_object(self, values: Mapping[str, Any], tokenize: Tokenize) -> Iterator[Question]:
        """The question of a line."""
        yield dict(values)

    def filled(self, question: Mapping[str, Any]) -> Question:
        """As it is."""
        return dict(question)

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """The words of a text."""
        return _tokens(key, text, tokenize)


def _tokens(key: str, text: Any, tokenize: Tokenize) -> Sentence:
    if isinstance(text, str):
        return tokenize(text)
    if not isinstance(text, list | tuple) or not all(isinstance(token, str) for token in text):
        raise ElmoxError(f"{key} is {text!r:.60}, expected a text or a list of tokens")
    return text
