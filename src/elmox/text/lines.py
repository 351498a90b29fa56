"""Lines of an input file to sentences of tokens: running text, tokenized text or JSON lines.

| format | a line is |
|---|---|
| raw | running text: split into sentences, then into tokens by the model's tokenizer |
| tokenized | one sentence, its tokens separated by white space (bilm-tf's habit) |
| jsonl | `{"tokens": [...]}`, one sentence, or `{"text": "..."}`, running text |

Other keys of a JSON line are ignored. Every line gives one entry, an empty line an empty one, so
that a line's number is its key. Files may be compressed.
"""

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from elmox.errors import ElmoxError
from elmox.io.inputs import refuse_device
from elmox.io.json_text import check_json_text
from elmox.io.text_files import open_bytes, text_suffix
from elmox.text.sentences import split_sentences

STDIN = "-"

LineFormat: TypeAlias = Literal["raw", "tokenized", "jsonl"]
Tokenize: TypeAlias = Callable[[str], list[str]]


@dataclass(frozen=True)
class Line:
    """One line of the input as the sentences it consists of."""

    sentences: list[list[str]]

    @property
    def num_tokens(self) -> int:
        """Tokens of all its sentences, which is the length of its entry."""
        return sum(map(len, self.sentences))


def line_format(path: str, tokenized: bool) -> LineFormat:
    """Return the format of a file's lines: JSON lines by its name, otherwise by `tokenized`."""
    if text_suffix(Path(path)) in (".jsonl", ".ndjson"):
        return "jsonl"
    return "tokenized" if tokenized else "raw"


def check_source(path: str) -> None:
    """Refuse an input that cannot be read, before any work is done."""
    if path == STDIN:
        if sys.stdin is None:
            raise ElmoxError("stdin is closed: pipe text into it, or give a text file")
        return
    if not Path(path).exists():
        raise ElmoxError(f"{path} does not exist: give a text file, or - for stdin")
    if Path(path).is_dir():
        raise ElmoxError(f"{path} is a directory, expected a text file")
    refuse_device(path)
    if not os.access(path, os.R_OK):
        raise ElmoxError(f"{path} cannot be read: permission denied")


def read_lines(path: str, format: LineFormat, tokenize: Tokenize, skip: int = 0) -> Iterator[Line]:
    """Read a file (or stdin, `-`) line by line.

    Args:
        path: the file.
        format: what its lines are.
        tokenize: the model's tokenizer, for raw text.
        skip: lines to pass over, because an earlier run has done them.
    """
    parse = {"raw": _raw, "tokenized": _tokenized, "jsonl": _json}[format]
    for number, line in enumerate(text_lines(path, skip), start=skip):
        yield Line(parse(line, tokenize, path, number))


def text_lines(path: str, skip: int = 0) -> Iterator[str]:
    """The lines of a file (or of stdin, `-`) as they are, without their ends.

    Args:
        path: the file, plain or compressed (.gz, .xz, .bz2).
        skip: lines to pass over, without a look at them.
    """
    with _opened(path) as file:
        for number, line in enumerate(file):
            if number >= skip:
                yield _decoded(line, path, number)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    check_source(path)
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with open_bytes(Path(path)) as file:
        yield file


def _decoded(line: bytes, path: str, number: int) -> str:
    if number == 0:
        line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ElmoxError(
            f"{path}, line {number + 1}: byte {error.start + 1} is not UTF-8 "
            f"(0x{line[error.start]:02x}): convert the file to UTF-8 first"
        ) from error


def _tokenized(line: str, tokenize: Tokenize, path: str, number: int) -> list[list[str]]:
    tokens = line.split()
    return [tokens] if tokens else []


def _raw(line: str, tokenize: Tokenize, path: str, number: int) -> list[list[str]]:
    sentences = (tokenize(sentence) for sentence in split_sentences(line))
    return [tokens for tokens in sentences if tokens]


def _json(line: str, tokenize: Tokenize, path: str, number: int) -> list[list[str]]:
    if not line.strip():
        return []
    where = f"{path}, line {number + 1}"
    try:
        values: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ElmoxError(f"{where}: not JSON ({error})") from error
    values = values if isinstance(values, dict) else {}
    tokens, text = values.get("tokens"), values.get("text")
    try:
        check_json_text(line, text if tokens is None else tokens)
    except ElmoxError as error:
        raise ElmoxError(f"{where}: {error}") from None
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return [tokens] if tokens else []
    if tokens is None and isinstance(text, str):
        return _raw(text, tokenize, path, number)
    raise ElmoxError(f'{where}: expected {{"tokens": ["...", ...]}} or {{"text": "..."}}')
