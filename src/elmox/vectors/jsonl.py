"""Vectors as JSON lines: an object per entry, for programs in any language.

    {"id": 7, "text": "It rains.", "tokens": ["It", "rains", "."],
     "offsets": [[0, 2], [3, 8], [8, 9]], "vectors": [[0.12, ...], ...]}

| key | value |
|---|---|
| keys of a JSON input line | passed through, except `tokens` and `vectors` |
| tokens | the tokens of all sentences of the line |
| offsets | start and end of each token in the line's text, in characters; absent without a text |
| vectors | the entry as nested lists, (L+1, T, D) or (T, D) |

Numbers have as many digits as the dtype needs to be read back exactly. The format has no metadata:
`open_vectors` does not read it, and a finished job is not recognized as such.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from elmox.errors import ElmoxError
from elmox.io.files import sync_file
from elmox.text.lines import Line
from elmox.vectors.layout import Array
from elmox.vectors.parts import Entry, Parts

_DIGITS = {"float32": 9, "float16": 5}  # decimal digits that determine every value of a dtype


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Write the entries of all parts with their records into one file."""
    digits, dim = _DIGITS[parts.layout.dtype], parts.layout.dim
    row_format = f"[{', '.join([f'%.{digits}g'] * dim)}]"
    with target.open("wb") as file:
        for entry, record in zip(parts, parts.records(), strict=True):
            file.write(record[:-1])  # without the closing brace
            file.write(b'"vectors": ' if record == b"{}" else b', "vectors": ')
            file.writelines(text.encode("ascii") for text in _nested(entry, row_format))
            file.write(b"}\n")
    sync_file(target)


def line_record(line: Line) -> bytes:
    """Return the JSON object of a line without its vectors.

    Raises:
        ElmoxError: if a token cannot be located in the line's text.
    """
    values = {**line.extra, "tokens": [token for tokens in line.sentences for token in tokens]}
    offsets = line.offsets()
    if offsets is not None:
        values["offsets"] = [offset for sentence in offsets for offset in sentence]
    values.pop("vectors", None)
    try:
        return json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a passed-through string with half a surrogate pair
        return json.dumps(values).encode()


def _nested(entry: Entry, row_format: str) -> Iterator[str]:
    """Yield the text of an entry as nested lists; only a window of tokens is in memory."""
    if len(entry.shape) == 2:
        yield from _layer(entry, (), row_format)
        return
    yield "["
    for layer in range(entry.shape[0]):
        yield from _layer(entry, (layer,), row_format)
        yield ", " if layer + 1 < entry.shape[0] else "]"


def _layer(entry: Entry, layer: tuple[int, ...], row_format: str) -> Iterator[str]:
    """Yield the text of the vectors (T, D) of one layer."""
    yield "["
    for window in entry.windows():
        rows: Array = entry[(*layer, window, slice(None))]
        if not np.isfinite(rows).all():
            raise ElmoxError("some vectors are NaN or infinite, which JSON cannot hold")
        separator = ", " if window.start else ""
        yield separator + ", ".join(row_format % tuple(row) for row in rows.tolist())
    yield "]"
