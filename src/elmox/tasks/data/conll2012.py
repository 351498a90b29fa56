"""CoNLL-2012, the format of OntoNotes for coreference and semantic roles: a word per line.

    #begin document (bc/cnn/00/cnn_0001); part 000
    bc/cnn/00/cnn_0001  0  0  She   PRP  (S(NP*)  -     -   -  Ann  *  (ARG0*)  (3)
    bc/cnn/00/cnn_0001  0  1  sold  VBD  (VP*     sell  01  1  Ann  *  (V*)     -
    bc/cnn/00/cnn_0001  0  2  her   PRP$ (NP*     -     -   -  Ann  *  (ARG1*   (7|(3)
    bc/cnn/00/cnn_0001  0  3  car   NN   *)))     -     -   1  Ann  *  *)       7)
    #end document

Columns: document, part, number of the word in its sentence, word, part of speech, parse, lemma and
frame and sense of predicates, speaker, name; then one column per predicate of the sentence, in
which brackets bound its arguments; coreference last. There, `(7` begins a mention of entity 7 and
`7)` ends the latest one that is open, `(3)` is a mention of one word, `|` stands between several.
Mentions may nest and cross, and lie within a sentence. Nothing is written -, _ or not at all.

Columns are apart by blanks or, if there is one in the line, by tabs. LitBank's files are of the
second kind: columns 5 to 12 are `_`, and the last is empty where no mention begins or ends.
Described at http://conll.cemantix.org/2012/data.html
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text
from elmox.tasks.data.propositions import PREDICATE, Argument, Proposition, checked_proposition

MIN_COLUMNS = 12  # a sentence without predicates

_NUMBER, _WORD, _POS, _LEMMA, _FRAME, _SPEAKER, _FIRST_ROLES = 2, 3, 4, 6, 7, 9, 11
_NOTHING = ("-", "_", "")
_BEGIN = re.compile(r"#\s*begin document \((.+)\)(?:;(?:\s*part\s*([0-9]{1,9}))?)?\s*")
_END = re.compile(r"#\s*end document\b.*")
_ROLE = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
_MENTION = re.compile(r"(\()?([0-9]{1,9})(\))?")


class Mention(NamedTuple):
    """A span of a document: its first word's place and the place after its last word."""

    start: int
    stop: int


@dataclass(frozen=True)
class AnnotatedSentence:
    """A sentence of a document.

    Attributes:
        words: the tokens.
        xpos: their part-of-speech tags; `_` in LitBank.
        speakers: who says each word; `-` or `_` where it is not known.
        propositions: in the order of their columns; places count from the sentence's start.
    """

    words: tuple[str, ...]
    xpos: tuple[str, ...]
    speakers: tuple[str, ...]
    propositions: tuple[Proposition, ...]


@dataclass(frozen=True)
class AnnotatedDocument:
    """A document, or a part of one: parts are apart, no entity is in two.

    Attributes:
        name: of the document.
        part: its number; 0 if there is only one.
        sentences: in order.
        clusters: the entities, each all its mentions by their places in the document; ordered by
            their first mentions. An entity mentioned once is one too. In OntoNotes a few spans are
            mentions of two entities.
    """

    name: str
    part: int
    sentences: tuple[AnnotatedSentence, ...]
    clusters: tuple[tuple[Mention, ...], ...]


def read_conll2012(path: Path) -> Iterator[AnnotatedDocument]:
    """Read the documents of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    document: _Open | None = None
    number, has_documents = 0, False
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            text = line.rstrip("\n")
            if text.startswith("#"):
                begin, end = _BEGIN.fullmatch(text), _END.fullmatch(text)
                if begin and document is None:
                    document = _Open(path, begin[1], int(begin[2] or 0))
                elif end and document is not None:
                    yield document.end()
                    document, has_documents = None, True
                else:
                    raise _misplaced(path, number, text, document)
            elif not text.strip():
                if document is not None:
                    document.end_sentence()
            elif document is None:
                raise _malformed(path, number, "a word, expected #begin document before it")
            else:
                document.add(number, text)
    if document is not None:
        raise _malformed(path, number, "the end, expected #end document before it")
    if not has_documents:
        raise ElmoxError(f"{path} has no documents: expected CoNLL-2012, with #begin document")


class _Row(NamedTuple):
    """The columns of a word, and their line in the file."""

    line: int
    columns: list[str]


@dataclass
class _Open:
    """A document being read; `rows` belong to its current sentence."""

    path: Path
    name: str
    part: int
    rows: list[_Row] = field(default_factory=list)
    sentences: list[AnnotatedSentence] = field(default_factory=list)
    num_words: int = 0
    clusters: dict[str, set[Mention]] = field(default_factory=dict)

    def add(self, line: int, text: str) -> None:
        columns = text.split("\t") if "\t" in text else [cell for cell in text.split(" ") if cell]
        expected = len(self.rows[0].columns) if self.rows else max(len(columns), MIN_COLUMNS)
        if len(columns) != expected:
            more = "as above" if self.rows else "or more"
            problem = f"{len(columns)} columns, expected {expected} {more}: {text[:60]!r}"
            raise _malformed(self.path, line, problem)
        if columns[_NUMBER] != str(len(self.rows)):
            problem = f"word number {columns[_NUMBER]!r:.60}, expected {len(self.rows)}"
            raise _malformed(self.path, line, problem)
        if not columns[_WORD]:
            raise _malformed(self.path, line, f"column {_WORD + 1} is empty, expected a word")
        self.rows.append(_Row(line, columns))

    def end_sentence(self) -> None:
        if not self.rows:
            return
        for entity, start, stop in _mentions(self.path, self.rows):
            mention = Mention(self.num_words + start, self.num_words + stop)
            self.clusters.setdefault(entity, set()).add(mention)
        words, xpos, speakers = (
            tuple(row.columns[column] for row in self.rows) for column in (_WORD, _POS, _SPEAKER)
        )
        propositions = _propositions(self.path, self.rows)
        self.sentences.append(AnnotatedSentence(words, xpos, speakers, propositions))
        self.num_words += len(self.rows)
        self.rows = []

    def end(self) -> AnnotatedDocument:
        self.end_sentence()
        clusters = sorted(tuple(sorted(mentions)) for mentions in self.clusters.values())
        return AnnotatedDocument(self.name, self.part, tuple(self.sentences), tuple(clusters))


def _mentions(path: Path, rows: list[_Row]) -> Iterator[tuple[str, int, int]]:
    """Yield the entities of a sentence's mentions with their spans."""
    opened: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        cell = row.columns[-1]
        for piece in () if cell in _NOTHING else cell.split("|"):
            match = _MENTION.fullmatch(piece)
            if match is None or not (match[1] or match[3]):
                problem = f"coreference {cell!r:.60}, expected (N, N) or (N) with | between them"
                raise _malformed(path, row.line, problem)
            begins, entity, ends = match.groups()
            starts = opened.setdefault(entity, [])
            if begins:
                starts.append(place)
            if ends:
                if not starts:
                    problem = f"a mention of {entity} ends, expected ({entity} before it"
                    raise _malformed(path, row.line, f"{problem} in the sentence")
                yield entity, starts.pop(), place + 1
    for entity, starts in opened.items():
        for start in starts:
            problem = f"a mention of {entity} begins, expected {entity}) in the sentence too"
            raise _malformed(path, rows[start].line, problem)


def _propositions(path: Path, rows: list[_Row]) -> tuple[Proposition, ...]:
    columns = range(_FIRST_ROLES, len(rows[0].columns) - 1)
    used = (
        column for column in columns if any(row.columns[column] not in _NOTHING for row in rows)
    )
    return tuple(_proposition(path, rows, column) for column in used)


def _proposition(path: Path, rows: list[_Row], column: int) -> Proposition:
    """Return the proposition of a column; its predicate is the first word of V."""
    args: list[Argument] = []
    label, start = "", 0  # of the argument that is open; no label: none is
    for place, row in enumerate(rows):
        match = _ROLE.fullmatch(row.columns[column])
        begins, ends = match.groups(default="") if match else ("", "")
        if not match or (begins and label) or (ends and not begins and not label):
            problem = f"{row.columns[column]!r:.60} in column {column + 1}, expected the brackets "
            raise _malformed(path, row.line, f"{problem}of one argument after the other: (ARG0* *)")
        if begins:
            label, start = begins, place
        if ends:
            args.append(Argument(label, start, place + 1))
            label = ""
    if label:
        raise _malformed(path, rows[start].line, f"{label} in column {column + 1} is never closed")
    pred = next((arg.start for arg in args if arg.label == PREDICATE), 0)
    lemma, frame = rows[pred].columns[_LEMMA], rows[pred].columns[_FRAME]
    try:
        return checked_proposition(pred, lemma, f"{lemma}.{frame}", args, len(rows))
    except ElmoxError as error:
        raise _malformed(path, rows[pred].line, f"column {column + 1}: {error}") from None


def _misplaced(path: Path, line: int, text: str, document: _Open | None) -> ElmoxError:
    expected = "#begin document (NAME); part N" if document is None else "words or #end document"
    return _malformed(path, line, f"{text!r:.60}, expected {expected}")


def _malformed(path: Path, line: int, problem: str) -> ElmoxError:
    return ElmoxError(f"{path}, line {line}: {problem}")
