r"""JSON lines: an object per line. Several corpora are published like that.

The escapes of JSON can spell half of a pair that writes one character, a lone surrogate such as
`"\ud800"`; programs that cut strings in the middle of an emoji write it. UTF-8 cannot encode it, so
nothing made of it could be written to a file or a terminal. In a file decoded from UTF-8 it can
only come from an escape.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text, text_suffix

Item = TypeVar("Item")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN = 20  # characters on either side


def is_json_lines(path: str | Path) -> bool:
    """Return whether a file's name ends in .jsonl or .ndjson, compressed or not."""
    return text_suffix(path) in (".jsonl", ".ndjson")


def read_json_lines(path: Path, parse: Callable[[dict[str, Any]], Item]) -> Iterator[Item]:
    """Yield the result of `parse` for each object of a file; see `parse_json_lines`."""
    with open_text(path) as file:
        yield from parse_json_lines(file, path, parse)


def parse_json_lines(
    lines: Iterable[str], name: str | Path, parse: Callable[[dict[str, Any]], Item]
) -> Iterator[Item]:
    """Yield the result of `parse` for the object of each line; blank lines are skipped.

    An `ElmoxError` that `parse` raises is prefixed with `name` and the line number.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield parse(_object(line))
        except ElmoxError as error:
            raise ElmoxError(f"{name}, line {number}: {error}") from None


def string_field(values: dict[str, Any], name: str) -> str:
    """Return the string of that name in an object."""
    value = values.get(name)
    if not isinstance(value, str):
        raise ElmoxError(f"{name} is {value!r:.60}, expected a string")
    return value


def strings_field(values: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the strings of that name in an object."""
    value = values.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ElmoxError(f"{name} is {value!r:.60}, expected a list of strings")
    return tuple(value)


def check_json_text(source: str, values: Any) -> None:
    """Refuse values with a string that is no text.

    Args:
        source: the JSON that they came from. If it has no escape in question, they are not looked
            at.
        values: all of it, or the part that is used.
    """
    if not _SURROGATE.search(source):
        return
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        position = error.start
        near = error.object[max(0, position - _SHOWN) : position + _SHOWN]
        raise ElmoxError(
            f"{error.object[position]!a} in {near!a} is half a character (a lone surrogate), "
            "expected Unicode text: mend or remove it"
        ) from None


def _object(line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:  # ValueError also for a number of too many digits
        raise ElmoxError(f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ElmoxError(f"a {type(values).__name__}, expected an object")
    check_json_text(line, values)
    return values
