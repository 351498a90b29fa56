"""Commands killed before some of their operations on files; the script itself does all of them."""

import shutil
import subprocess
import sys

import pytest
from shell import environment
from task_runs import BENCHMARKS

CHOSEN = ("prepare --force", "convert to hdf5 --force", "train", "fit", "embed --force, npy")
NUM_POINTS = 3


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("gcc"), reason="no gcc on Linux")
def test_no_kill_leaves_anything_wrong() -> None:
    script = str(BENCHMARKS / "kill_points.py")
    done = subprocess.run(
        [sys.executable, script, "--points", str(NUM_POINTS), "--jobs", "1", "--only", *CHOSEN],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{name}: 0 bad points of {NUM_POINTS}" for name in CHOSEN]
