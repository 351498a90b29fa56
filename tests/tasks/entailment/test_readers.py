"""SNLI's JSON lines and SICK's columns, read as the same pairs."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.entailment.readers import Pair, read_sick, read_snli

SICK = SHARED / "tasks" / "entailment_sick"

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def snli(label: Any, name: Any = "7", first: Any = "It rains.", second: Any = "It's wet.") -> str:
    values = {"gold_label": label, "pairID": name, "sentence1": first, "sentence2": second}
    return json.dumps({**values, "annotator_labels": [label]}) + "\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "pairs.txt"
    path.write_text(text, "utf-8", newline="")
    return path


def test_snli(tmp_path: Path) -> None:
    text = snli("entailment", "1") + snli("-") + "\n" + snli("contradiction", "2") + snli("-")
    assert read_snli(write(tmp_path, text)) == [
        Pair("1", "It rains.", "It's wet.", "entailment"),
        Pair("2", "It rains.", "It's wet.", "contradiction"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]\n", "line 2: a list, expected an object"),
        ("It rains.\n", "line 2: not JSON"),
        (snli("hidden"), "line 2: gold_label is 'hidden', expected entailment, neutral, contrad"),
        (snli(None), "line 2: gold_label is None"),
        (snli(["neutral"]), "line 2: gold_label is"),
        (snli("neutral", 3), "line 2: pairID is 3, expected a string"),
        (snli("neutral", first=None), "line 2: sentence1 is None, expected a string"),
        (snli("-", second=[]), r"line 2: sentence2 is \[\], expected a string"),
    ],
)
def test_malformed_lines_of_snli(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ElmoxError, match=f"pairs.txt, {message}"):
        read_snli(write(tmp_path, snli("neutral") + line))


@pytest.mark.parametrize("text", ["", "\n", snli("-")])
def test_snli_without_labels(tmp_path: Path, text: str) -> None:
    with pytest.raises(ElmoxError, match=r"pairs.txt has no labeled pairs"):
        read_snli(write(tmp_path, text))


def test_sick(tmp_path: Path) -> None:
    text = HEADER + '1\t"It" rains\tIt\'s wet\t4.5\tENTAILMENT\n\n2\tA\tB\t1\tNEUTRAL\n'
    expected = [Pair("1", '"It" rains', "It's wet", "entailment"), Pair("2", "A", "B", "neutral")]
    assert read_sick(write(tmp_path, text)) == expected
    assert read_sick(write(tmp_path, text.replace("\n", "\r\n"))) == expected


def test_sick_of_all_pairs_has_other_columns(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    text = header + "1\tA\tB\tCONTRADICTION\t4.5\tTRAIN\n"
    assert read_sick(write(tmp_path, text)) == [Pair("1", "A", "B", "contradiction")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1\tA\tB\t4.5\n", ", line 2: 4 columns, expected 5 between tabs"),
        (HEADER + "\n1\tA\tB\t4.5\tYES\n", ", line 3: the label is 'YES', expected ENTAILMENT,"),
        ("1\tA\tB\t4.5\tENTAILMENT\n", ", line 1: no column pair_ID"),
        ("pair_ID\tsentence_A\tsentence_B\n1\tA\tB\n", ", line 1: no column entailment_judgment"),
        ("", ", line 1: no column"),
        (HEADER, " has no pairs"),
    ],
)  # fmt: skip
def test_malformed_lines_of_sick(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ElmoxError, match=f"pairs.txt{message}"):
        read_sick(write(tmp_path, text))


@pytest.mark.skipif(not SICK.is_dir(), reason=f"no SICK at {SICK} (set ELMOX_SHARED)")
def test_the_real_sick() -> None:
    parts = [read_sick(SICK / f"SICK_{part}.txt") for part in ("train", "trial", "test_annotated")]
    assert [len(part) for part in parts] == [4500, 500, 4927]
    labels = Counter(pair.label for part in parts for pair in part)
    assert labels == {"neutral": 5611, "entailment": 2857, "contradiction": 1459}
    assert len({pair.id for part in parts for pair in part}) == sum(labels.values())
