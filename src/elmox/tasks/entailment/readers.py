"""Pairs of sentences with their entailment: SNLI's JSON lines and SICK's columns.

SNLI and MultiNLI have an object per line:

    {"gold_label": "neutral", "sentence1": "A man eats.", "sentence2": "He is hungry.", ...}

`gold_label` is the label of most annotators, or "-" without a majority; those pairs are dropped, as
in all published results.

SICK (sentences involving compositional knowledge) has a pair per line, its columns between tabs:

    pair_ID  sentence_A  sentence_B  relatedness_score  entailment_judgment
    1        A man eats  A man dines  4.5               NEUTRAL

Its first line names the columns. The label column is entailment_judgment in the files of SemEval
2014 and entailment_label in the file of all pairs. As in SNLI, the label is whether A, the premise,
entails B, the hypothesis.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.json_lines import read_json_lines, string_field
from elmox.io.text_files import open_text

LABELS = ("entailment", "neutral", "contradiction")
NO_MAJORITY = "-"

_LABEL_COLUMNS = ("entailment_judgment", "entailment_label")


@dataclass(frozen=True)
class Pair:
    """Two sentences as they were written, not tokenized, and one of `LABELS`."""

    id: str
    premise: str
    hypothesis: str
    label: str


def read_snli(path: Path) -> list[Pair]:
    """Read the labeled pairs of an SNLI or MultiNLI file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message has the file, the line and what was expected.
    """
    pairs = [pair for pair in read_json_lines(path, _snli_pair) if pair.label != NO_MAJORITY]
    if not pairs:
        raise ElmoxError(f"{path} has no labeled pairs: expected SNLI's JSON lines")
    return pairs


def _snli_pair(values: dict[str, Any]) -> Pair:
    label = values.get("gold_label")
    if label not in (*LABELS, NO_MAJORITY):
        expected = ", ".join(LABELS)
        raise ElmoxError(f"gold_label is {label!r:.60}, expected {expected} or {NO_MAJORITY}")
    premise, hypothesis = string_field(values, "sentence1"), string_field(values, "sentence2")
    return Pair(string_field(values, "pairID"), premise, hypothesis, label)


def read_sick(path: Path) -> list[Pair]:
    """Read the pairs of a SICK file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message has the file, the line and what was expected.
    """
    pairs: list[Pair] = []
    with open_text(path) as file:
        names = file.readline().rstrip("\n").split("\t")
        label_column = next((name for name in _LABEL_COLUMNS if name in names), "")
        required = ("pair_ID", "sentence_A", "sentence_B", label_column or _LABEL_COLUMNS[0])
        for name in required:
            if name not in names:
                raise ElmoxError(f"{path}, line 1: no column {name}, expected SICK's column names")
        indices = [names.index(name) for name in required]
        for number, line in enumerate(file, start=2):
            if line.isspace():
                continue
            columns = line.rstrip("\n").split("\t")
            if len(columns) != len(names):
                problem = f"{len(columns)} columns, expected {len(names)} between tabs"
                raise ElmoxError(f"{path}, line {number}: {problem}: {line[:60]!r}")
            name, premise, hypothesis, label = (columns[index] for index in indices)
            if label.lower() not in LABELS:
                expected = ", ".join(LABELS).upper()
                raise ElmoxError(
                    f"{path}, line {number}: the label is {label!r}, expected {expected}"
                )
            pairs.append(Pair(name, premise, hypothesis, label.lower()))
    if not pairs:
        raise ElmoxError(f"{path} has no pairs: expected them below the column names")
    return pairs
