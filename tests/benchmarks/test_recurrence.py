"""The benchmark of the tasks' LSTMs: what it measures, and that it needs a GPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shell import environment

from elmox.kernels.availability import FORCE

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "recurrence.py"


@pytest.mark.parametrize("kind", ["bidirectional", "eight with highways"])
def test_a_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from recurrence import row_of

    monkeypatch.delenv(FORCE, raising=False)
    row = row_of(kind, 4, 3, torch.device("cpu"), repeats=2)
    match = re.fullmatch(rf"\| {kind} \| 4 \| 3 \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", row)
    assert match is not None
    ours, theirs, ratio = map(float, match.groups())
    assert ratio == pytest.approx(theirs / ours, rel=0.1, abs=0.1)
    assert FORCE not in os.environ


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would run")
def test_without_a_gpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "table.md")],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "recurrence.py: our kernels cannot be used here: no GPU\n"
    assert not (tmp_path / "table.md").exists()
