"""CoNLL-U, the format of Universal Dependencies: a word per line, ten columns between tabs.

    # text = don't go
    1-2    don't  _    _     _   _  _  _       _  _
    1      do     do   AUX   VB  _  3  aux     _  _
    2      n't    not  PART  RB  _  3  advmod  _  _
    3      go     go   VERB  VB  _  0  root    _  _

A sentence consists of its syntactic words 1, 2, 3. Multiword tokens (1-2) and empty nodes (8.1, in
enhanced graphs) are left out, but their lines are checked too. The format is described at
https://universaldependencies.org/format.html
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text

NUM_COLUMNS = 10
UNSPECIFIED = "_"

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_ID = re.compile(rf"({_NUMBER.pattern})(?:([-.])({_NUMBER.pattern}))?")


@dataclass(frozen=True)
class TreebankSentence:
    """A sentence with its annotation; all tuples except the comments have an entry per word.

    Attributes:
        words: the forms. Some languages have words with a space inside.
        lemmas: the dictionary forms.
        upos: universal part-of-speech tags.
        xpos: the treebank's own, finer tags.
        feats: morphological features as in the file: `Case=Nom|Number=Sing` or `_`.
        heads: the number of each word's head, counted from 1; 0 for the root. Empty if the sentence
            has no tree, only tags.
        deprels: the relation of each word to its head.
        comments: the lines before the words, without `#`.
        line: the line number of the first word, counted from 1.
    """

    words: tuple[str, ...]
    lemmas: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    heads: tuple[int, ...]
    deprels: tuple[str, ...]
    comments: tuple[str, ...]
    line: int

    def __len__(self) -> int:
        return len(self.words)


def read_conllu(path: Path) -> list[TreebankSentence]:
    """Return the sentences of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    with open_text(path) as file:
        sentences = [_sentence(path, comments, rows) for comments, rows in _blocks(path, file)]
    if not sentences:
        raise ElmoxError(f"{path} has no sentences: expected CoNLL-U, a word per line")
    return sentences


def is_treebank_line(line: str) -> bool:
    """Return whether a line begins a sentence of CoNLL-U and cannot be anything else.

    That is a comment that every treebank has, or a first word: ten columns, with its number and
    that of its head (a multiword token has no head).
    """
    if line.startswith(("# text =", "# sent_id =", "# newdoc", "# newpar")):
        return True
    columns = line.removesuffix("\n").split("\t")
    if len(columns) != NUM_COLUMNS:
        return False
    id, head = _ID.fullmatch(columns[0]), columns[6]
    is_number = id is not None and id[1] == "1" and id[2] != "."
    return is_number and (head == UNSPECIFIED or _NUMBER.fullmatch(head) is not None)


class _Row(NamedTuple):
    """A line with a word, a multiword token or an empty node on it."""

    line: int
    columns: list[str]


def _blocks(path: Path, file: TextIO) -> Iterator[tuple[list[str], list[_Row]]]:
    """Yield the comments and the other lines of each sentence; blank lines end sentences."""
    comments: list[str] = []
    rows: list[_Row] = []
    number = 0
    for number, line in enumerate(_with_last_blank(file), start=1):
        if line.startswith("#"):
            if rows:
                raise _malformed(path, number, "a comment among words, expected it before them")
            comments.append(line[1:].strip())
        elif line:
            rows.append(_Row(number, _columns(path, number, line)))
        elif rows:
            yield comments, rows
            comments, rows = [], []
        elif comments:
            raise _malformed(path, number, "comments without words, expected a sentence below them")


def _with_last_blank(file: TextIO) -> Iterator[str]:
    """Yield the lines without their ends, and a blank one for files that lack the last."""
    for line in file:
        yield line.removesuffix("\n")
    yield ""


def _columns(path: Path, line: int, text: str) -> list[str]:
    columns = text.split("\t")
    if len(columns) != NUM_COLUMNS:
        problem = f"{len(columns)} columns, expected {NUM_COLUMNS} between tabs: {text[:60]!r}"
        raise _malformed(path, line, problem)
    if not all(columns):
        problem = f"column {columns.index('') + 1} is empty, expected a value or {UNSPECIFIED}"
        raise _malformed(path, line, problem)
    return columns


def _sentence(path: Path, comments: list[str], rows: list[_Row]) -> TreebankSentence:
    words = list(_words(path, rows))
    if not words:
        raise _malformed(path, rows[0].line, "a sentence without words, expected 1, 2, ...")
    _, forms, lemmas, upos, xpos, feats, heads, deprels, _, _ = zip(
        *(row.columns for row in words), strict=True
    )
    return TreebankSentence(
        words=forms,
        lemmas=lemmas,
        upos=upos,
        xpos=xpos,
        feats=feats,
        heads=_numbers(path, words, heads),
        deprels=deprels,
        comments=tuple(comments),
        line=words[0].line,
    )


def _numbers(path: Path, words: list[_Row], heads: tuple[str, ...]) -> tuple[int, ...]:
    """Return the words' heads; nothing if no word has one."""
    if {*heads} == {UNSPECIFIED}:
        return ()
    for number, (row, head) in enumerate(zip(words, heads, strict=True), start=1):
        if not _NUMBER.fullmatch(head) or int(head) > len(words) or int(head) == number:
            problem = f"the head of word {number} of {len(words)} is {head!r}, expected the number "
            raise _malformed(path, row.line, f"{problem}of another word, or 0 for the root")
    return tuple(map(int, heads))


def _words(path: Path, rows: list[_Row]) -> Iterator[_Row]:
    """Yield the rows of words; the ids of all rows must be complete and in order."""
    word = node = covered = 0  # the last word, its last empty node, the end of the last range
    for row in rows:
        id = _ID.fullmatch(row.columns[0])
        first, kind, second = id.groups(default="") if id else ("", "not an id", "")
        if kind == "" and int(first) == word + 1:
            word, node = word + 1, 0
            yield row
        elif kind == "." and (int(first), int(second)) == (word, node + 1):
            node += 1
        elif kind == "-" and covered <= word and word + 1 == int(first) < int(second):
            covered = int(second)
        else:
            problem = f"id {row.columns[0]!r} after word {word}, expected {word + 1}, a multiword "
            raise _malformed(
                path, row.line, f"{problem}token {word + 1}-N or the empty node {word}.{node + 1}"
            )
    if covered > word:
        problem = f"a multiword token up to word {covered}, but the sentence has {word} words"
        raise _malformed(path, rows[-1].line, problem)


def _malformed(path: Path, line: int, problem: str) -> ElmoxError:
    return ElmoxError(f"{path}, line {line}: {problem}")
