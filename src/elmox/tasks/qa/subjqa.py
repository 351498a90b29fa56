"""SubjQA: questions about reviews, as the CSV files of its splits.

A row is one annotator's answer to one question about one review. Of its columns, these are used:

    q_review_id          names the question about the review
    question, review     the texts; the review ends in " ANSWERNOTFOUND"
    human_ans_spans      the words that the annotator marked, tokens apart
    human_ans_indices    "(967, 984)": the characters from the first to the last of them

The files' oddities are handled as follows:

- All rows of one q_review_id are one question with several answers. Unless every annotator found
  none, the question can be answered: the others' answers count.
- The marker ANSWERNOTFOUND is cut off the review. It was there for annotators to mark.
- An answer is the passage that the indices bound, without blanks around it. The marked words differ
  from it in every fifth answer: they are tokenized, and may leave out words in the middle.
- An annotator who marked words and the marker too (1 row in 400) counts as having no answer.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmox.errors import ElmoxError, UnreadableFile
from elmox.io.text_files import open_text
from elmox.tasks.qa.questions import Answer, Question

NOT_FOUND = "ANSWERNOTFOUND"

_COLUMNS = ("q_review_id", "question", "review", "human_ans_spans", "human_ans_indices")
_INDICES = re.compile(r"\(([0-9]{1,9}), ([0-9]{1,9})\)")


class _Row(NamedTuple):
    """One annotator's answer; None where there was none to be found."""

    id: str
    context: str
    question: str
    answer: Answer | None


def read_subjqa(path: Path) -> list[Question]:
    """The questions of a file, plain or compressed, in the order in which they first occur.

    Raises:
        ElmoxError: a row is malformed; the message names file, line and what was expected.
    """
    asked: dict[str, list[_Row]] = {}
    for line, row in _rows(path):
        rows = asked.setdefault(row.id, [])
        rows.append(row)
        if (row.context, row.question) != (rows[0].context, rows[0].question):
            problem = f"q_review_id {row.id} has another question or review here than above"
            raise ElmoxError(f"{path}, line {line}: {problem}, expected the same")
    if not asked:
        raise ElmoxError(f"{path} has no questions: expected rows below the names of columns")
    return [_question(rows) for rows in asked.values()]


def _question(rows: list[_Row]) -> Question:
    answers = tuple(row.answer for row in rows if row.answer is not None)
    return Question(rows[0].id, rows[0].context, rows[0].question, answers, not answers)


def _rows(path: Path) -> Iterator[tuple[int, _Row]]:
    """The rows below the names of the columns, each with the line where it begins."""
    line = 1
    with open_text(path, newline="") as file:  # line ends inside a review count as characters
        reader = csv.DictReader(file, strict=True)
        try:
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise ElmoxError(f"no column {missing[0]}, expected SubjQA's names of columns")
            line = reader.line_num + 1
            for values in reader:
                yield line, _row(values)
                line = reader.line_num + 1
        except UnreadableFile:
            raise
        except (csv.Error, ElmoxError) as error:
            raise ElmoxError(f"{path}, line {line}: {error}") from None


def _row(values: dict[str, str]) -> _Row:
    if None in values or None in values.values():
        raise ElmoxError("too many or too few columns, expected as many as have names")
    context, marker, rest = values["review"].rpartition(f" {NOT_FOUND}")
    if not marker or rest:
        raise ElmoxError(f"the review ends in {values['review'][-20:]!r}, expected {NOT_FOUND}")
    indices = _INDICES.fullmatch(values["human_ans_indices"])
    if indices is None:
        given = values["human_ans_indices"]
        raise ElmoxError(f"human_ans_indices is {given!r:.60}, expected (FIRST, AFTER_LAST)")
    start, stop = map(int, indices.groups())
    if not start < stop <= len(values["review"]):
        long = len(values["review"])
        raise ElmoxError(
            f"human_ans_indices is ({start}, {stop}), expected places in a review of {long} "
            "characters"
        )
    passage, marked = values["review"][start:stop], values["human_ans_spans"]
    if passage.lstrip()[:1] != marked.lstrip()[:1]:  # words in the middle may differ
        raise ElmoxError(f"{marked!r:.60} is marked, but {passage!r:.60} stands at {start}")
    answer = None
    if stop <= len(context) and passage.strip():
        start += len(passage) - len(passage.lstrip())
        answer = Answer(passage.strip(), start)
    return _Row(values["q_review_id"], context, values["question"], answer)
