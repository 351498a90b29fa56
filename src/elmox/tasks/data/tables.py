"""Tables of text: CSV and TSV with a line of column names, and JSON lines with an object per row.

In CSV (.csv) fields may be quoted and then contain line ends and commas. The separator is a comma;
a semicolon or a tab if the first line has the expected columns only then. In TSV (.tsv, .tab)
fields end at tabs and quotes are part of the text.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from elmox.errors import ElmoxError, UnreadableFile
from elmox.io.json_lines import is_json_lines, read_json_lines
from elmox.io.text_files import open_text, text_suffix

_SEPARATORS = {".csv": (",", ";", "\t"), ".tsv": ("\t",), ".tab": ("\t",)}


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        where: file and line, for error messages.
        values: its fields, by column.
    """

    where: str
    values: dict[str, Any]


def is_table(path: str | Path) -> bool:
    """Return whether a file's name ends in .csv, .tsv or .tab, compressed or not."""
    return text_suffix(path) in _SEPARATORS


def read_table(path: Path, expected: Sequence[str] = ()) -> Iterator[Row]:
    """Read the rows of a file, plain or compressed.

    Args:
        path: a file called .csv, .tsv, .tab, .jsonl or .ndjson.
        expected: columns that the table must have.

    Raises:
        ElmoxError: a column is missing, or a row is malformed; the message has file and line.
    """
    if is_json_lines(path):
        rows = enumerate(read_json_lines(path, dict), start=1)
        for number, values in rows:
            where = f"{path}, object {number}"
            _require(where, expected, list(values), "keys")
            yield Row(where, values)
    elif is_table(path):
        with open_text(path, newline="") as file:  # line ends inside of quotes are text
            yield from _read_rows(path, file, expected)
    else:
        raise ElmoxError(
            f"{path}: the suffix is {text_suffix(path)!r}, expected .csv, .tsv or .jsonl"
        )


def _read_rows(path: Path, file: TextIO, expected: Sequence[str]) -> Iterator[Row]:
    header = file.readline()
    separators = _SEPARATORS[text_suffix(path)]
    tables = {separator: _reader([header], separator) for separator in separators}
    columns = {separator: _first(path, reader) for separator, reader in tables.items()}
    separator = next((s for s in separators if set(expected) <= set(columns[s])), separators[0])
    names = columns[separator]
    _require(f"{path}, line 1", expected, names, "columns")
    reader, line = _reader(chain([header], file), separator), 1
    try:
        next(reader)
        line = reader.line_num + 1
        for fields in reader:
            if fields and len(fields) != len(names):
                raise ElmoxError(f"{len(fields)} columns, expected {len(names)} as in line 1")
            if fields:
                values = dict(zip(names, fields, strict=True))
                yield Row(f"{path}, line {line}", values)
            line = reader.line_num + 1
    except UnreadableFile:
        raise
    except (csv.Error, ElmoxError) as error:
        raise ElmoxError(f"{path}, line {line}: {error}") from None


def _reader(lines: Any, separator: str) -> Any:
    if separator == "\t":
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE, strict=True)
    return csv.reader(lines, delimiter=separator, strict=True)


def _first(path: Path, reader: Any) -> list[str]:
    """Return the column names; none if the first line is malformed for this separator."""
    try:
        return [name.strip() for name in next(reader, [])]
    except csv.Error:
        return []


def _require(where: str, expected: Sequence[str], names: Sequence[str], what: str) -> None:
    for name in expected:
        if name not in names:
            given = ", ".join(map(repr, names)) or "none"
            raise MissingColumn(f"{where}: the {what} are {given:.200}, expected {name!r}", name)


class MissingColumn(ElmoxError):
    """A table lacks a column.

    Attributes:
        column: its name.
    """

    def __init__(self, message: str, column: str) -> None:
        """Name the column."""
        self.column = column
        super().__init__(message)
