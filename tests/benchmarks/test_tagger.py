"""The script that times a tagger, on a tiny one."""

import json
import subprocess
import sys
from pathlib import Path

from fits import fit_task
from shell import environment
from tagged_files import NAMES, write_columns

from elmox.tasks.recipe import task_recipe

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "tagger.py"


def test_it_counts_epochs_and_words(tmp_path: Path) -> None:
    data = write_columns(tmp_path / "names.txt", NAMES)
    small = ["elmo.model=none", "words.dim=8", "words.filters=0", "head.hidden=[8]", "fit.epochs=2"]
    chosen = task_recipe(None, small)
    fit_task("ner", chosen, data, data, tmp_path / "run", device="cpu", cache=tmp_path / "cache")
    run = tmp_path / "run" / "seed-0"
    log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    log[0]["dev_f1"], log[1]["dev_f1"], log[1]["seconds"] = 40.0, 50.0, 700.0
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, log)))
    (tmp_path / "text.txt").write_text("Ada lived in London. She met Grace.\n")
    command = [sys.executable, str(SCRIPT), str(run), "--text", str(tmp_path / "text.txt")]
    command += ["--repeats", "3", "--out", str(tmp_path / "results")]
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    results = json.loads((tmp_path / "results" / "tagger.json").read_text())
    fitting = {"epochs": 2, "epochs_early": 1, "seconds": 700.0, "best": 50.0, "best_early": 40.0}
    assert results["fitting"] == fitting
    assert results["tagging"]["words"] == 9
    slowest, fastest = results["tagging"]["range"]
    assert 0 < slowest <= results["tagging"]["rate"] <= fastest
    shown = (tmp_path / "results" / "tagger.md").read_text()
    assert "| the best within 10 minutes (1 epochs) | 40.00 | 49.80 |" in shown
