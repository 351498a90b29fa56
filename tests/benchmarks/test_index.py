"""The scripts that measure indexes, on tiny models."""

import json
import subprocess
import sys
from pathlib import Path

from sense_data import write_sense_data
from shell import environment

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def printed_table(script: str, *arguments: object) -> list[list[str]]:
    """Run a script and return the cells of the rows of its table."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line[:2] == "| "]
    return rows[1:]


def test_sizes_times_and_recall(tiny: Path, tmp_path: Path) -> None:
    words = ["river", "money", "holiday", "account", "robber"]
    text = "".join(f"The {word} bank was near the {other}.\n" for word in words for other in words)
    (tmp_path / "text.txt").write_text(text * 2)
    arguments = ["--model", tiny, "--text", tmp_path / "text.txt", "--queries", 5, "--noise", 0.5]
    rows = printed_table("index.py", *arguments, "--sizes", 400)
    assert [row[0] for row in rows] == ["400"]
    for row in rows:
        assert float(row[5]) > 0.7, "recall of one word"
        assert float(row[7]) > 0.7, "recall of all words"


def test_senses_per_layer(tiny: Path, tmp_path: Path) -> None:
    write_sense_data(tmp_path)
    key = "bank%1:17:01::", "bank%1:14:00::"
    lines = [
        {"tokens": ["The", "bank", place], "sense": [None, key[i % 2], None]}
        for i, place in enumerate(["shore", "loan", "river", "credit"])
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = printed_table(
        "index_senses.py", tmp_path / "train.jsonl", tmp_path / "Evaluation_Datasets",
        "--model", tiny, "-k", 2,
    )  # fmt: skip
    assert [row[0] for row in rows] == ["0", "1", "2", "average"]
    for row in rows:
        assert row[2].endswith("%")
