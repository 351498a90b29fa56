"""The plot of a training run, from the log of the bundled model."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "curve.py"
LOG = ROOT / "src" / "elmox" / "models" / "english-small" / "metrics.jsonl"


def test_the_plot_shows_the_values_of_the_log() -> None:
    script = runpy.run_path(str(SCRIPT))
    lines = script["read_run"](LOG)
    above, below = script["draw"]({"english-small": lines}).axes
    held_out = [line["perplexity"] for line in lines if "perplexity" in line]
    losses = [line["sampled_loss"] for line in lines if "sampled_loss" in line]
    assert above.lines[0].get_ydata().tolist() == held_out
    assert above.texts[0].get_text() == f"{held_out[-1]:.1f}"
    assert below.lines[0].get_ydata().tolist() == losses


def test_from_the_shell(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(LOG), str(tmp_path / "curve")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pictures = [tmp_path / f"curve.{kind}" for kind in ("png", "svg")]
    assert done.stdout.split() == [str(path) for path in pictures]
    assert "english-small" in pictures[1].read_text("utf-8")
