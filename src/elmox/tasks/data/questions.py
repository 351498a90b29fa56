"""What a task is asked: how its questions are written, in plain text and in JSON lines.

| a question is | in a JSON line | in plain text |
|---|---|---|
| a sentence | `tokens`; every sentence of `text` is one | every sentence |
| a sentence and places in it | `tokens`, or `text`, which is one sentence | not to be written so |
| a document | `sentences`, or `text`, or `tokens` of its only sentence | all up to a blank line |
| several texts | each by its own name | not to be written so |

A text is a list of tokens, or a string, which the tokenizer splits. Any of them may be empty.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from elmox.errors import ElmoxError
from elmox.tasks.data.texts import Sentence
from elmox.text.lines import Tokenize
from elmox.text.sentences import split_sentences

Question = dict[str, Any]


class Questions(Protocol):
    """The questions of a task.

    Attributes:
        keys: the texts that the task reads of a question.
        instead: keys under which a question may have its text instead.
        beside: keys of what else the task cannot do without.
    """

    keys: tuple[str, ...]
    instead: tuple[str, ...]
    beside: tuple[str, ...]

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Question] | None:
        """The questions of a plain text; None where they cannot be written so.

        Args:
            lines: the sentences of each line, none of a blank one.
        """
        ...

    def of_object(self, values: Mapping[str, Any]) -> list[Question]:
        """The questions of an object, a JSON line's or a caller's.

        What is there `instead` is under the task's own key in them; a key that is in neither place
        is missing.
        """
        ...

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sequence[Any]:
        """The tokens of what a key has."""
        ...


class Sentences:
    """Every question is a sentence; a `Questions`."""

    keys: tuple[str, ...] = ("tokens",)
    instead: tuple[str, ...] = ("text",)
    beside: tuple[str, ...] = ()

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Question]:
        """Every sentence; a blank line is an empty one."""
        return ({"tokens": sentence} for line in lines for sentence in line or [[]])

    def of_object(self, values: Mapping[str, Any]) -> list[Question]:
        """The sentence of a line, or every sentence of its running text."""
        if "tokens" in values or not isinstance(values.get("text"), str):
            return _one_sentence(values)
        return [{**values, "tokens": own} for own in split_sentences(values["text"]) or [""]]

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """The words of the sentence."""
        return _tokens(key, text, tokenize)


class MarkedSentences:
    """Every question is a sentence and places in it, counted in its tokens; a `Questions`.

    A text is one sentence: in a part of it, the places would be others.
    """

    keys: tuple[str, ...] = ("tokens",)
    instead: tuple[str, ...] = ("text",)

    def __init__(self, places: str) -> None:
        """Log under which key the places are."""
        self.beside: tuple[str, ...] = (places,)

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> None:
        """Plain text has no places."""
        return None

    def of_object(self, values: Mapping[str, Any]) -> list[Question]:
        """The sentence of a line."""
        return _one_sentence(values)

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """The words of the sentence."""
        return _tokens(key, text, tokenize)


class Documents:
    """Every question is a document, all its sentences; a `Questions`."""

    keys: tuple[str, ...] = ("sentences",)
    instead: tuple[str, ...] = ("tokens", "text")
    beside: tuple[str, ...] = ()

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

    def of_object(self, values: Mapping[str, Any]) -> list[Question]:
        """The document of a line: the sentences of a text; tokens are those of one sentence."""
        found = [values[key] for key in self.instead if key in values]
        if "sentences" in values or not found:
            return [dict(values)]
        text = found[0]
        sentences = split_sentences(text) if isinstance(text, str) else [text]
        return [{**values, "sentences": sentences}]

    def split(self, key: str, text: Any, tokenize: Tokenize) -> list[Sentence]:
        """The words of each sentence, of empty ones too: what is told of each has its place."""
        if not isinstance(text, list | tuple):
            raise ElmoxError(f"{key} is {text!r:.60}, expected a list of sentences")
        return [_tokens("a sentence", own, tokenize) for own in text]


class NamedTexts:
    """Every question has several texts; a `Questions`."""

    instead: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def __init__(self, *keys: str) -> None:
        """Name the texts."""
        self.keys = keys

    def of_lines(self, lines: Iterable[Sequence[Sentence]]) -> None:
        """Not to be told apart in plain text."""
        return None

    def of_object(self, values: Mapping[str, Any]) -> list[Question]:
        """The question of a line."""
        return [dict(values)]

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """The words of a text."""
        return _tokens(key, text, tokenize)


def _one_sentence(values: Mapping[str, Any]) -> list[Question]:
    """The only sentence of an object, under `tokens` or under `text`."""
    if "tokens" in values or "text" not in values:
        return [dict(values)]
    return [{**values, "tokens": values["text"]}]


def _tokens(key: str, text: Any, tokenize: Tokenize) -> Sentence:
    if isinstance(text, str):
        return tokenize(text)
    if not isinstance(text, list | tuple) or not all(isinstance(token, str) for token in text):
        raise ElmoxError(f"{key} is {text!r:.60}, expected a text or a list of tokens")
    return text
