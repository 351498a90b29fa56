"""Lines of an input file to sentences of tokens: running text, tokenized text or JSON lines.

| format | a line is |
|---|---|
| raw | running text: split into sentences, then into tokens by the model's tokenizer |
| tokenized | one sentence, its tokens separated by white space (bilm-tf's habit) |
| jsonl | `{"tokens": [...]}`, one sentence, or `{"text": "..."}`, running text |
| parquet | a row with a column `tokens` (lists of strings) or `text` |

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
from elmox.io.parquet import is_parquet, num_rows, read_rows
from elmox.io.text_files import open_bytes, open_text_at, text_name
from elmox.text.offsets import Offsets, token_offsets
from elmox.text.sentences import sentences_of

LineFormat: TypeAlias = Literal["raw", "tokenized", "jsonl", "parquet"]
Tokenize: TypeAlias = Callable[[str], list[str]]


@dataclass(frozen=True)
class Line:
    """One line of the input as the sentences it consists of.

    Attributes:
        sentences: the tokens of each sentence.
        text: the text that the tokens come from; None for a JSON line with `tokens`.
        extra: the other keys of a JSON line, `text` included.
        start: position of the line in its file, in bytes (in rows of a Parquet file).
    """

    sentences: list[list[str]]
    text: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    start: int = 0

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


@dataclass(frozen=True)
class Position:
    """The beginning of a line in a file.

    Attributes:
        line: number of lines before it.
        start: its position in bytes, after decompression; in rows of a Parquet file.
    """

    line: int = 0
    start: int = 0


BEGINNING = Position()


def line_format(path: str, tokenized: bool) -> LineFormat:
    """Return the format of a file's lines: by its name, otherwise by `tokenized`."""
    if is_json_lines(path):
        return "jsonl"
    if is_parquet(path):
        return "parquet"
    return "tokenized" if tokenized else "raw"


def read_lines(
    path: str,
    format: LineFormat,
    tokenize: Tokenize,
    skip: int = 0,
    origin: Position = BEGINNING,
) -> Iterator[Line]:
    """Read a file (or stdin, `-`) line by line.

    Args:
        path: the file.
        format: the format of its lines.
        tokenize: the model's tokenizer, for running text.
        skip: number of lines to skip, because an earlier run has processed them.
        origin: where to begin, before lines are skipped.
    """
    if format == "parquet":
        yield from _rows(path, tokenize, origin.start + skip)
        return
    parse = {"raw": _raw, "tokenized": _tokenized, "jsonl": _json}[format]
    lines = enumerate(_lines_from(path, origin), start=origin.line)
    for number, (start, line) in islice(lines, skip, None):
        yield replace(parse(line, tokenize, path, number), start=start)


def text_lines(path: str, skip: int = 0) -> Iterator[str]:
    """Yield the lines of a file (or of stdin, `-`) without their ends.

    Args:
        path: the file, plain or compressed.
        skip: number of lines to skip.
    """
    for _, line in islice(_lines_from(path, BEGINNING), skip, None):
        yield line


def block_starts(path: str, format: LineFormat, size: int) -> list[Position]:
    """Divide the lines of a file into blocks by their position, without parsing them.

    Block k consists of the lines that start between k * size and (k + 1) * size, in bytes, or in
    rows of a Parquet file. Blocks without a line are left out.

    Returns:
        The beginning of each block.
    """
    if format == "parquet":
        return [Position(row, row) for row in range(0, num_rows(path), size)]
    starts: list[Position] = []
    num_lines, offset, before = 0, 0, b"\n"
    with open_bytes(path) as file:
        while data := file.read(size):
            ends = before + data[:-1]  # a line starts after each newline in it
            count = ends.count(b"\n")
            if count:
                starts.append(Position(num_lines, offset + ends.index(b"\n")))
            num_lines += count
            offset += len(data)
            before = data[-1:]
    return starts


def _lines_from(path: str, origin: Position) -> Iterator[tuple[int, str]]:
    """Yield the position of each line and the line without its end."""
    start = origin.start
    with open_text_at(path, origin.start, origin.line) as file:
        for line in file:
            yield start, (line if start else line.removeprefix("\ufeff")).rstrip("\r\n")
            start += len(line) if line.isascii() else len(line.encode())


def _rows(path: str, tokenize: Tokenize, first: int) -> Iterator[Line]:
    for row, values in enumerate(read_rows(path, ("tokens", "text"), first), start=first):
        where = f"{path}, row {row}"
        yield replace(_from_values(values, tokenize, path, row, where), start=row)


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
    try:
        tokens = values.get("tokens")
        check_json_text(line, values.get("text") if tokens is None else tokens)
    except ElmoxError as error:
        raise ElmoxError(f"{where}: {error}") from None
    return _from_values(values, tokenize, path, number, where)


def _from_values(
    values: Mapping[str, Any], tokenize: Tokenize, path: str, number: int, where: str
) -> Line:
    """Make a line of an object with `tokens` or `text`; `where` is for error messages."""
    tokens, text = values.get("tokens"), values.get("text")
    extra = {key: value for key, value in values.items() if key != "tokens"}
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return Line([tokens] if tokens else [], extra=extra)
    if tokens is None and isinstance(text, str):
        return replace(_raw(text, tokenize, path, number), extra=extra)
    raise ElmoxError(f'{where}: expected {{"tokens": ["...", ...]}} or {{"text": "..."}}')
