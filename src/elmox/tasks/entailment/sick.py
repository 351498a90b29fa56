"""SICK, sentences involving compositional knowledge: a pair per line, columns between tabs.

    pair_ID  sentence_A  sentence_B  relatedness_score  entailment_judgment
    1        A man eats  A man dines  4.5               NEUTRAL

The first line names the columns. The label is called entailment_judgment in the files of SemEval
2014 and entailment_label in the one of all pairs. SICK's entailment is read as SNLI's: whether A,
the premise, entails B, the hypothesis.
"""

from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text
from elmox.tasks.entailment.pairs import LABELS, Pair, Pairs

_LABEL_COLUMNS = ("entailment_judgment", "entailment_label")


def read_sick(path: Path) -> Pairs:
    """The pairs of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    pairs: list[Pair] = []
    with open_text(path) as file:
        names = file.readline().rstrip("\n").split("\t")
        label_column = next((name for name in _LABEL_COLUMNS if name in names), "")
        wanted = ("pair_ID", "sentence_A", "sentence_B", label_column or _LABEL_COLUMNS[0])
        for name in wanted:
            if name not in names:
                raise ElmoxError(f"{path}, line 1: no column {name}, expected SICK's names of them")
        places = [names.index(name) for name in wanted]
        for number, line in enumerate(file, start=2):
            if line.isspace():
                continue
            columns = line.rstrip("\n").split("\t")
            if len(columns) != len(names):
                problem = f"{len(columns)} columns, expected {len(names)} between tabs"
                raise ElmoxError(f"{path}, line {number}: {problem}: {line[:60]!r}")
            name, premise, hypothesis, label = (columns[place] for place in places)
            if label.lower() not in LABELS:
                expected = ", ".join(LABELS).upper()
                raise ElmoxError(
                    f"{path}, line {number}: the label is {label!r}, expected {expected}"
                )
            pairs.append(Pair(name, premise, hypothesis, label.lower()))
    if not pairs:
        raise ElmoxError(f"{path} has no pairs: expected them below the names of columns")
    return Pairs(tuple(pairs))
