"""CoNLL columns: one word per line with its annotation, a blank line after each sentence.

    He      PRP  B-NP
    sleeps  VBZ  B-VP
    .       .    O

CoNLL-2000 (chunks) and CoNLL-2003 (names) separate columns by single spaces, WNUT-17 by tabs; its
training part has lines with only a tab between sentences. CoNLL-2003 has a line
`-DOCSTART- -X- -X- O` before each document.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.conllu import is_treebank_line
from elmox.io.text_files import open_text

DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True)
class TaggedSentence:
    """Words and as many tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.words)


def read_columns(path: Path, *, word: int = 0, tag: int = -1) -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, plain or compressed (.gz, .xz, .bz2, .zst).

    A line is cut at its tabs, or at spaces where it has no tab. Only those: other white space, such
    as the no-break space of `10 000`, may be part of a word.

    Args:
        path: the file.
        word: the column of the words, as Python counts: 0 is the first, -1 the last.
        tag: the column of the tags.

    Raises:
        ElmoxError: a line is malformed, or there is no sentence; the message names file and line.
    """
    words: list[str] = []
    tags: list[str] = []
    num_columns = num_sentences = 0
    with open_text(path) as file:
        for number, line in enumerate(chain(file, [""]), start=1):  # the last blank may be missing
            columns = _columns(line)
            if columns and columns[0] != DOCUMENT_START:
                if not num_columns:
                    _refuse_other_kinds(path, number, line, columns)
                    num_columns = _checked_width(path, number, columns, word, tag)
                _check(path, number, columns, num_columns, word, tag)
                words.append(columns[word])
                tags.append(columns[tag])
            elif words:
                yield TaggedSentence(tuple(words), tuple(tags))
                words, tags = [], []
                num_sentences += 1
    if not num_sentences:
        raise ElmoxError(f"{path} has no sentences: expected columns, a word and its tag a line")


def _columns(line: str) -> list[str]:
    """Return the columns of a line; none if it is blank."""
    if not line.strip():
        return []
    line = line.removesuffix("\n")
    if "\t" in line:
        return [column.strip(" ") for column in line.split("\t")]
    return [column for column in line.split(" ") if column]


def _refuse_other_kinds(path: Path, number: int, line: str, columns: list[str]) -> None:
    """Refuse a file whose first line shows that it has another format."""
    if is_treebank_line(line):
        kind = "a treebank in CoNLL-U (known as one by the name .conllu)"
    elif line.startswith("#begin document "):
        kind = "CoNLL-2012"
    elif {"sentence_A", "sentence_B"} <= set(columns):
        kind = "SICK's pairs of sentences"
    elif _is_json_object(line):
        kind = "JSON"
    else:
        return
    raise _malformed(path, number, f"this is {kind}, expected columns, a word and its tag a line")


def _is_json_object(line: str) -> bool:
    """Return whether a line is a non-empty JSON object; `{ }` may be a word and its tag."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, dict) and bool(values)


def _checked_width(path: Path, line: int, columns: list[str], word: int, tag: int) -> int:
    """Return the number of columns of the first line, which must include words and tags."""
    width = len(columns)
    for name, place in (("words", word), ("tags", tag)):
        if not -width <= place < width:
            problem = f"{_counted(width)}, expected one at index {place} for the {name}"
            raise _malformed(path, line, problem)
    if word % width == tag % width:
        problem = f"{_counted(width)}, expected words (index {word}) and tags (index {tag}) in two"
        raise _malformed(path, line, problem)
    return width


def _check(path: Path, line: int, columns: list[str], width: int, word: int, tag: int) -> None:
    if len(columns) != width:
        shown = " ".join(columns)[:60]
        problem = f"{_counted(len(columns))}, expected {width} as in the lines before: {shown!r}"
        raise _malformed(path, line, problem)
    for name, place in (("word", word), ("tag", tag)):
        if not columns[place]:
            problem = f"column {place % width + 1} of {width} is empty, expected a {name}"
            raise _malformed(path, line, problem)


def _counted(width: int) -> str:
    return f"{width} column{'' if width == 1 else 's'}"


def _malformed(path: Path, line: int, problem: str) -> ElmoxError:
    return ElmoxError(f"{path}, line {line}: {problem}")
