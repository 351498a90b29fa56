"""Unlabeled inputs of a task: sentences, documents or named texts, as plain text and as mappings.

| an input is | as a mapping (a JSON line) | in plain text |
|---|---|---|
| a sentence | `tokens`; every sentence of `text` is one input | every sentence |
| a sentence and positions in it | `tokens`, or `text`, which is one sentence | not possible |
| a document | `sentences`, or `text`, or `tokens` of its only sentence | lines up to a blank one |
| a text of any length | `text` (or another key), or `tokens` | every line |
| several texts | each under its name | not possible |

A text is a list of tokens, or a string, which the tokenizer splits; then the offsets of its tokens
are known too. Any text may be empty.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from elmox.errors import ElmoxError
from elmox.text.document import split_document
from elmox.text.lines import Line, Tokenize
from elmox.text.offsets import token_offsets

Values: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class TokenizedInput:
    """One input with its texts split into tokens.

    Attributes:
        values: the input, with tokens under the task's text keys.
        offsets: for each text key whose text was a string, the (start, end) of each token in that
            string; of a document, a list of them for each sentence.
        strings: the named texts that were strings, by key.
    """

    values: Values
    offsets: dict[str, Any] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)


class InputFormat(ABC):
    """The inputs of a task.

    Attributes:
        text_keys: keys of the texts that the task reads.
        alternative_keys: keys under which the text may be given instead.
        required_keys: keys of everything else that the task requires.
        keeps_text: `elmox tag` copies the text to its output, because the task's output lacks it.
    """

    text_keys: tuple[str, ...]
    alternative_keys: tuple[str, ...] = ()
    required_keys: tuple[str, ...] = ()
    keeps_text = False

    @abstractmethod
    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return a mapping as one input.

        Raises:
            ElmoxError: a text is missing, or neither a string nor tokens.
        """

    def split_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> list[TokenizedInput]:
        """Return the inputs of a mapping with running text; one, unless inputs are sentences."""
        return [self.from_mapping(values, tokenize)]

    def from_lines(
        self, lines: Iterable[Line], tokenize: Tokenize
    ) -> Iterator[TokenizedInput] | None:
        """Return the inputs of plain text; None, the default, if plain text cannot express them.

        Each has a key `line`, the index of its (first) line, in which its offsets are counted.
        """
        return None


class SentenceInput(InputFormat):
    """Every input is one sentence."""

    text_keys = ("tokens",)
    alternative_keys = ("text",)

    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return the sentence under `tokens` or `text`."""
        return _one_sentence(values, tokenize)

    def split_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> list[TokenizedInput]:
        """Return the sentence under `tokens`, or every sentence of the running `text`."""
        text = values.get("text")
        sentences = []
        if "tokens" not in values and isinstance(text, str):
            sentences = split_document(text, tokenize)
        return [
            TokenizedInput({**values, "tokens": one.tokens}, {"tokens": one.offsets})
            for one in sentences
        ] or [_one_sentence(values, tokenize)]

    def from_lines(self, lines: Iterable[Line], tokenize: Tokenize) -> Iterator[TokenizedInput]:
        """Return every sentence; a blank line is an empty one."""
        for line_number, line in enumerate(lines, start=1):
            by_sentence = line.offsets()
            for number, tokens in enumerate(line.sentences or [[]]):
                offsets = {}
                if by_sentence is not None:
                    offsets["tokens"] = by_sentence[number] if tokens else []
                yield TokenizedInput({"line": line_number, "tokens": tokens}, offsets)


class MarkedSentenceInput(InputFormat):
    """Every input is one sentence with positions in it, as token indices.

    A `text` is one sentence: the indices count its tokens.
    """

    text_keys = ("tokens",)
    alternative_keys = ("text",)

    def __init__(self, positions: str) -> None:
        """Expect the positions under this key."""
        self.required_keys = (positions,)

    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return the sentence under `tokens` or `text`."""
        return _one_sentence(values, tokenize)


class DocumentInput(InputFormat):
    """Every input is a document of several sentences."""

    text_keys = ("sentences",)
    alternative_keys = ("tokens", "text")

    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return the sentences under `sentences`, those of a text, or the only one of `tokens`.

        Empty sentences stay, because other keys count them.
        """
        if "sentences" in values:
            sentences = values["sentences"]
            if not isinstance(sentences, list | tuple):
                raise ElmoxError(f"sentences is {sentences!r:.60}, expected a list of sentences")
            tokens = [_tokens("a sentence", sentence, tokenize) for sentence in sentences]
            return TokenizedInput({**values, "sentences": tokens})
        key = _key_of(values, self.alternative_keys, "sentences, text or tokens")
        if not isinstance(values[key], str):
            return TokenizedInput({**values, "sentences": [_tokens(key, values[key], tokenize)]})
        document = split_document(values[key], tokenize)
        return TokenizedInput(
            {**values, "sentences": [sentence.tokens for sentence in document]},
            {"sentences": [sentence.offsets for sentence in document]},
        )

    def from_lines(self, lines: Iterable[Line], tokenize: Tokenize) -> Iterator[TokenizedInput]:
        """Return the documents: one or more blank lines end one, as in text to train a biLM on."""
        document: list[tuple[int, Line]] = []
        for index, line in enumerate(lines, start=1):
            if line.sentences:
                document.append((index, line))
            elif document:
                yield _document(document)
                document = []
        if document:
            yield _document(document)


class TextInput(InputFormat):
    """Every input is one text, of however many sentences."""

    keeps_text = True

    def __init__(self, key: str = "text") -> None:
        """Expect the text under this key."""
        self.text_keys = (key,)
        self.alternative_keys = tuple(other for other in ("text", "tokens") if other != key)

    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return the text."""
        (name,) = self.text_keys
        keys = (name, *self.alternative_keys)
        text = values[_key_of(values, keys, " or ".join(keys))]
        tokens = _tokens(name, text, tokenize)
        strings = {name: text} if isinstance(text, str) else {}
        return TokenizedInput({**values, name: tokens}, strings=strings)

    def from_lines(self, lines: Iterable[Line], tokenize: Tokenize) -> Iterator[TokenizedInput]:
        """Return every line, blank ones too."""
        for line_number, line in enumerate(lines, start=1):
            yield self.from_mapping({"line": line_number, "text": line.text or ""}, tokenize)


class NamedTextsInput(InputFormat):
    """Every input has several texts, each under its key."""

    def __init__(self, *keys: str, keeps_text: bool = False) -> None:
        """Name the texts."""
        self.text_keys, self.keeps_text = keys, keeps_text

    def from_mapping(self, values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
        """Return the texts."""
        tokenized = TokenizedInput(dict(values))
        for key in self.text_keys:
            text = values[_key_of(values, (key,), " and ".join(self.text_keys))]
            tokenized.values[key] = tokens = _tokens(key, text, tokenize)
            if isinstance(text, str):
                tokenized.offsets[key] = token_offsets(text, tokens)
                tokenized.strings[key] = text
        return tokenized


def _one_sentence(values: Mapping[str, Any], tokenize: Tokenize) -> TokenizedInput:
    """Return the only sentence of a mapping, under `tokens` or `text`."""
    key = _key_of(values, ("tokens", "text"), "text or tokens")
    tokens = _tokens(key, values[key], tokenize)
    offsets = {}
    if isinstance(values[key], str):
        offsets["tokens"] = token_offsets(values[key], tokens)
    return TokenizedInput({**values, "tokens": tokens}, offsets)


def _document(lines: Sequence[tuple[int, Line]]) -> TokenizedInput:
    """Return a document of consecutive lines; its offsets count their ends as one character."""
    sentences: list[Sequence[str]] = []
    offsets: list[list[tuple[int, int]]] = []
    start = 0
    for _, line in lines:
        sentences += line.sentences
        for in_line in line.offsets() or ():
            offsets.append([(start + first, start + end) for first, end in in_line])
        start += len(line.text or "") + 1
    values = {"line": lines[0][0], "sentences": sentences}
    return TokenizedInput(values, {"sentences": offsets} if offsets else {})


def _key_of(values: Mapping[str, Any], keys: Iterable[str], expected: str) -> str:
    """Return the first of the keys that a mapping has."""
    for key in keys:
        if key in values:
            return key
    raise ElmoxError(f"the keys are {', '.join(values) or 'missing'}, expected {expected}")


def _tokens(key: str, text: Any, tokenize: Tokenize) -> Sequence[str]:
    if isinstance(text, str):
        return tokenize(text)
    if not isinstance(text, list | tuple) or not all(isinstance(token, str) for token in text):
        raise ElmoxError(f"{key} is {text!r:.60}, expected a text or a list of tokens")
    return text
