"""The script that trains a sentence encoder, on a few pairs and a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shell import environment

pytest.importorskip("sentence_transformers")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "sentence_encoder.py"
COLUMNS = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
PAIRS = [
    ("A cat sleeps", "A cat sleeps", 5.0),
    ("A dog runs", "It rains", 1.0),
    ("Go", "Come", 2.5),
]


def test_it_compares_plain_and_trained_encoders(tiny: Path, tmp_path: Path) -> None:
    rows = [f"{i}\t{a}\t{b}\t{score}\tNEUTRAL" for i, (a, b, score) in enumerate(PAIRS * 2)]
    for part in ("train", "trial", "test_annotated"):
        (tmp_path / f"SICK_{part}.txt").write_text("\n".join([COLUMNS, *rows]) + "\n")
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--model", str(tiny), "--epochs", "2"]
    command += ["--rates", "0.01"]
    command += ["--seeds", "2", "--out", str(tmp_path / "results")]
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    result = json.loads((tmp_path / "results" / "sentence_encoder.json").read_text())
    assert result["pairs"] == {"train": 6, "trial": 6, "test": 6}
    assert [run["seed"] for run in result["trained"]] == [0, 1]
    for run in result["trained"]:  # scored with the weights of the best epoch: the parts are equal
        assert run["test"][0] == pytest.approx(run["trial"], abs=1e-3)
    plain = result["plain"]
    assert plain["test"] == plain["trial"]
    table = (tmp_path / "results" / "sentence_encoder.md").read_text()
    assert "| trained: mix and head, 2 seeds |" in table
