"""Unlabeled inputs of a task: sentences, documents or named texts, as plain text and as mappings.

| an input is | as a mapping (a JSON line) | in plain text |
|---|---|---|
| a sentence | `tokens`; every sentence of `text` is one input | every sentence |
| a sentence and positions in it | `tokens`, or `text`, which is one sentence | not possible |
| a document | `sentences`, or `text`, or `tokens` of its only sentence | lines up to a blank one |
| several texts | each under its name | not possible |

A text is a list of tokens, or a string, which the tokenizer splits. Any text may be empty.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from elmox.errors import ElmoxError
from elmox.tasks.data.texts import Sentence
from elmox.text.lines import Tokenize
from elmox.text.sentences import split_sentences

Values: TypeAlias = dict[str, Any]


class InputFormat(ABC):
    """The inputs of a task.

    Attributes:
        text_keys: keys of the texts that the task reads.
        alternative_keys: keys under which the text may be given instead.
        required_keys: keys of everything else that the task requires.
    """

    text_keys: tuple[str, ...]
    alternative_keys: tuple[str, ...] = ()
    required_keys: tuple[str, ...] = ()

    def from_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Values] | None:
        """Return the inputs of plain text; None, the default, if plain text cannot express them.

        Args:
            lines: the sentences of each line; a blank line has none.
        """
        return None

    def from_mapping(self, values: Mapping[str, Any]) -> Values:
        """Return a mapping as one input, with its text under the task's own key.

        A key that the mapping lacks is missing in the input too.
        """
        return dict(values)

    def split_mapping(self, values: Mapping[str, Any]) -> list[Values]:
        """Return the inputs of a mapping with running text; one, unless they are sentences."""
        return [self.from_mapping(values)]

    @abstractmethod
    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sequence[Any]:
        """Return the tokens of the text under a key."""


class SentenceInput(InputFormat):
    """Every input is one sentence."""

    text_keys = ("tokens",)
    alternative_keys = ("text",)

    def from_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Values]:
        """Return every sentence; a blank line is an empty one."""
        return ({"tokens": sentence} for line in lines for sentence in line or [[]])

    def from_mapping(self, values: Mapping[str, Any]) -> Values:
        """Return the sentence under `tokens` or `text`."""
        return _one_sentence(values)

    def split_mapping(self, values: Mapping[str, Any]) -> list[Values]:
        """Return the sentence under `tokens`, or every sentence of the running `text`."""
        if "tokens" in values or not isinstance(values.get("text"), str):
            return [_one_sentence(values)]
        sentences = split_sentences(values["text"]) or [""]
        return [{**values, "tokens": sentence} for sentence in sentences]

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """Return the tokens of the sentence."""
        return _tokens(key, text, tokenize)


class MarkedSentenceInput(InputFormat):
    """Every input is one sentence with positions in it, as token indices.

    A `text` is one sentence: the indices count its tokens.
    """

    text_keys = ("tokens",)
    alternative_keys = ("text",)

    def __init__(self, positions: str) -> None:
        """Expect the positions under this key."""
        self.required_keys = (positions,)

    def from_mapping(self, values: Mapping[str, Any]) -> Values:
        """Return the sentence under `tokens` or `text`."""
        return _one_sentence(values)

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """Return the tokens of the sentence."""
        return _tokens(key, text, tokenize)


class DocumentInput(InputFormat):
    """Every input is a document of several sentences."""

    text_keys = ("sentences",)
    alternative_keys = ("tokens", "text")

    def from_lines(self, lines: Iterable[Sequence[Sentence]]) -> Iterator[Values]:
        """Return the documents: one or more blank lines end one, as in text to train a biLM on."""
        sentences: list[Sentence] = []
        for line in lines:
            if not line and sentences:
                yield {"sentences": sentences}
                sentences = []
            sentences += line
        if sentences:
            yield {"sentences": sentences}

    def from_mapping(self, values: Mapping[str, Any]) -> Values:
        """Return the document: the sentences of its text, or the only one that `tokens` holds."""
        texts = [values[key] for key in self.alternative_keys if key in values]
        if "sentences" in values or not texts:
            return dict(values)
        sentences = split_sentences(texts[0]) if isinstance(texts[0], str) else [texts[0]]
        return {**values, "sentences": sentences}

    def split(self, key: str, text: Any, tokenize: Tokenize) -> list[Sentence]:
        """Return the tokens of each sentence; empty ones stay, because indices count them."""
        if not isinstance(text, list | tuple):
            raise ElmoxError(f"{key} is {text!r:.60}, expected a list of sentences")
        return [_tokens("a sentence", sentence, tokenize) for sentence in text]


class NamedTextsInput(InputFormat):
    """Every input has several texts, each under its key."""

    def __init__(self, *keys: str) -> None:
        """Name the texts."""
        self.text_keys = keys

    def split(self, key: str, text: Any, tokenize: Tokenize) -> Sentence:
        """Return the tokens of a text."""
        return _tokens(key, text, tokenize)


def _one_sentence(values: Mapping[str, Any]) -> Values:
    """Return a mapping with its only sentence under `tokens`."""
    return {"tokens": values["text"], **values} if "text" in values else dict(values)


def _tokens(key: str, text: Any, tokenize: Tokenize) -> Sentence:
    if isinstance(text, str):
        return tokenize(text)
    if not isinstance(text, list | tuple) or not all(isinstance(token, str) for token in text):
        raise ElmoxError(f"{key} is {text!r:.60}, expected a text or a list of tokens")
    return text
