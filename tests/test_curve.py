"""The picture of a training run, drawn from the log of the model that comes with elmox."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "src" / "elmox" / "models" / "english-small" / "metrics.jsonl"


def test_it_draws_what_the_log_says(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "curve.py"))
    lines = script["read_run"](LOG)
    above, below = script["draw"]({"english-small": lines}).axes
    held_out = [line["perplexity"] for line in lines if "perplexity" in line]
    assert above.lines[0].get_ydata().tolist() == held_out
    assert above.texts[0].get_text() == f"{held_out[-1]:.1f}"
    assert below.lines[0].get_xdata()[-1] == pytest.approx(lines[-1].get("epoch", 14), abs=0.1)


def test_from_the_shell(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "curve.py", LOG, tmp_path / "curve"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / f"curve.{kind}") for kind in ("png", "svg")]
    assert (tmp_path / "curve.svg").read_text("utf-8").count("english-small") >= 1
