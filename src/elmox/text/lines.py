"""Lines of an input file to sentences of tokens: running text, tokenized text or JSON lines.

| format | a line is |
|---|---|
| raw | running text: split into sentences, then into tokens by the model's tokenizer |
| tokenized | one sentence, its tokens separated by white space (bilm-tf's habit) |
| jsonl | `{"tokens": [...]}`, one sentence, or `{"text": "..."}`, running text |

Other keys of a JSON line are kept in `Line.extra`. Every line becomes one entry, an empty line an
empty one, so that a line's number is its key. Files may be compressed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Literal, TypeAlias

from elmox.errors import ElmoxError
from elmox.io.json_lines import check_json_text, is_json_lines
from elmox.io.text_files import open_text, text_name
from elmox.text.offsets import Offsets, token_offsets
from elmox.text.sentences import sentences_of

LineFormat: TypeAlias = Literal["raw", "tokenized", "jsonl"]
Tokenize: TypeAlias = Callable[[str], list[str]]


@dataclass(frozen=True)
class Line:
    """One line of the input as the sentences it consists of.

    Attributes:
        sentences: the tokens of each sentence.
        text: the text that the tokens come from; None for a JSON line with `tokens`.
        extra: the other keys of a JSON line, `text` included.
    """

    sentences: list[list[str]]
    text: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all its sentences."""
        return sum(map(len, self.sentences))

    def offsets(self) -> list[list[Offsets]] | None:
        """Return the (start, end) of each token of each sentence in `text`; None without a text.

        They are computed here, so that readers which do not need them do not pay for them.
        """
        if self.text is None:
            return None
        offsets = iter(token_offsets(self.text, chain.from_iterable(self.sentences)))
        return [list(islice(offsets, len(sentence))) for sentence in self.sentences]


def line_format(path: str, tokenized: bool) -> LineFormat:
    """Return the format of a file's lines: JSON lines by its name, otherwise by `tokenized`."""
    if is_json_lines(path):
        return "jsonl"
    return "tokenized" if tokenized else "raw"


def read_lines(path: str, format: LineFormat, tokenize: Tokenize, skip: int = 0) -> Iterator[Line]:
    """Read a file (or stdin, `-`) line by line.

    Args:
        path: the file.
        format: the format of its lines.
        tokenize: the model's tokenizer, for running text.
        skip: number of lines to skip, because an earlier run has processed them.
    """
    parse = {"raw": _raw, "tokenized": _tokenized, "jsonl": _json}[format]
    for number, line in enumerate(text_lines(path, skip), start=skip):
        yield parse(line, tokenize, path, number)


def text_lines(path: str, skip: int = 0) -> Iterator[str]:
    """Yield the lines of a file (or of stdin, `-`) without their ends.

    Args:
        path: the file, plain or compressed.
        skip: number of lines to skip.
    """
    with open_text(path, newline="\n") as file:
        for line in islice(file, skip, None):
            yield line.rstrip("\r\n")


def _tokenized(line: str, tokenize: Tokenize, path: str, number: int) -> Line:
    tokens = line.split()
    return Line([tokens] if tokens else [], line)


def _raw(line: str, tokenize: Tokenize, path: str, number: int) -> Line:
    return Line([tokens for tokens in sentences_of(line, tokenize) if tokens], line)


def _json(line: str, tokenize: Tokenize, path: str, number: int) -> Line:
    if not line.strip():
        return Line([])
    where = f"{text_name(path)}, line {number + 1}"
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ElmoxError(f"{where}: not JSON ({error})") from error
    values = values if isinstance(values, dict) else {}
    tokens, text = values.get("tokens"), values.get("text")
    extra = {key: value for key, value in values.items() if key != "tokens"}
    try:
        check_json_text(line, text if tokens is None else tokens)
    except ElmoxError as error:
        raise ElmoxError(f"{where}: {error}") from None
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return Line([tokens] if tokens else [], extra=extra)
    if tokens is None and isinstance(text, str):
        return replace(_raw(text, tokenize, path, number), extra=extra)
    raise ElmoxError(f'{where}: expected {{"tokens": ["...", ...]}} or {{"text": "..."}}')
