"""Streams that are closed or full: the work of a command is done, whatever becomes of messages."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from shell import command, environment

from elmox import open_vectors
from elmox.cli.options import json_line

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def run_with(stderr: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a shell runs it with `2>STDERR`."""
    words = " ".join(f"'{word}'" for word in command(*arguments))
    script = f"{words} 2>{stderr}"
    return subprocess.run(
        ["sh", "-c", script], env=environment(), stdout=subprocess.PIPE, check=False
    )


@pytest.mark.parametrize("stderr", ["&-", pytest.param("/dev/full", marks=needs_full_device)])
def test_messages_that_go_nowhere(stderr: str, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Live in the present.\nNow\n")
    done = run_with(stderr, "embed", tiny, tmp_path / "text.txt", tmp_path / "out.hdf5")
    assert (done.returncode, done.stdout) == (0, b"")
    assert len(open_vectors(tmp_path / "out.hdf5")) == 2
    assert run_with(stderr, "info", tmp_path / "absent").returncode == 1


def test_both_closed(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Live in the present.\n")
    done = run_with("&- >&-", "embed", tiny, tmp_path / "text.txt", tmp_path / "out")
    assert done.returncode == 0
    assert sorted(os.listdir(tmp_path / "out")) == [
        "checksums.npy",
        "index.npy",
        "meta.json",
        "shard-00000.npy",
    ]


def test_json_has_no_nan() -> None:
    assert json_line({"a": math.inf, "b": [1.5, -math.inf, (math.nan, "é")]}) == (
        '{"a": null, "b": [1.5, null, [null, "é"]]}'
    )
    assert json.loads(json_line([1e308, None, True])) == [1e308, None, True]
