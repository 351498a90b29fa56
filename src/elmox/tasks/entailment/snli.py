"""Entailment in the JSON lines of SNLI and MultiNLI: a pair per line.

    {"gold_label": "neutral", "sentence1": "A man eats.", "sentence2": "He is hungry.", ...}

`gold_label` is what most annotators said, or "-" where there was no majority; such pairs are
dropped, as all results on these corpora have it.
"""

from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.json_lines import read_json_lines, string_field
from elmox.tasks.entailment.pairs import LABELS, Pair, Pairs

NO_MAJORITY = "-"


def read_snli(path: Path) -> Pairs:
    """The pairs of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    pairs = list(read_json_lines(path, _pair))
    kept = tuple(pair for pair in pairs if pair.label != NO_MAJORITY)
    if not kept:
        raise ElmoxError(f"{path} has no labeled pairs: expected SNLI's JSON lines")
    return Pairs(kept, num_dropped=len(pairs) - len(kept))


def _pair(values: dict[str, Any]) -> Pair:
    label = values.get("gold_label")
    if label not in (*LABELS, NO_MAJORITY):
        expected = ", ".join(LABELS)
        raise ElmoxError(f"gold_label is {label!r:.60}, expected {expected} or {NO_MAJORITY}")
    premise, hypothesis = string_field(values, "sentence1"), string_field(values, "sentence2")
    return Pair(string_field(values, "pairID"), premise, hypothesis, label)
