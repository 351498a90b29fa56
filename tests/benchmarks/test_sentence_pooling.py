"""The script that fits and compares poolings, on a few sentences and a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import environment

from elmox import Elmo

pytest.importorskip("sklearn")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "sentence_pooling.py"
COLUMNS = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
PAIRS = [
    ("A cat sleeps", "A cat sleeps", 5.0),
    ("A dog runs", "It rains", 1.0),
    ("Go home", "Come", 2.5),
]
TREES = ["(4 (2 A) (4 joy))", "(0 (2 So) (0 dull))", "(2 (2 It) (2 rains))", "(3 (2 The) (3 sea))"]
TEXT = "The cat sat on the mat. It slept.\nA dog saw the cat.\nThey know the house.\n"


def run(*arguments: object) -> None:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_fits_and_compares(tiny: Path, tmp_path: Path) -> None:
    text, model, sick, sst = (tmp_path / name for name in ("text.txt", "model", "sick", "sst"))
    text.write_text(TEXT * 4)
    run("fit", tiny, text, "--sentences", 5, "--out", model)
    pooling = Elmo.from_pretrained(model).pooling
    assert pooling is not None
    assert "the" in pooling.weights
    sick.mkdir()
    sst.mkdir()
    rows = [f"{i}\t{a}\t{b}\t{score}\tNEUTRAL" for i, (a, b, score) in enumerate(PAIRS)]
    for part in ("train", "trial", "test_annotated"):
        (sick / f"SICK_{part}.txt").write_text("\n".join([COLUMNS, *rows]) + "\n")
    for part in ("train", "dev", "test"):
        (sst / f"{part}.txt").write_text("\n".join(TREES * 3) + "\n")
    for task, folder in (("sick", sick), ("sst", sst)):
        run(task, folder, "--model", model, "--out", tmp_path / "results")
        stem = tmp_path / "results" / f"sentence_pooling_{task}"
        rows = json.loads(stem.with_suffix(".json").read_text())
        assert list(rows) == ["TF-IDF", "mean", "max", "weighted, as stored", "weighted, fitted"]
        for row in rows.values():  # the parts are equal
            assert row["test"] == pytest.approx(row["chosen_by"])
            assert np.isfinite(row["test"])
        assert "| weighted, fitted |" in stem.with_suffix(".md").read_text()
