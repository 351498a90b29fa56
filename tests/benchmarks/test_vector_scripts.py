"""The scripts that measure the writing of vectors and Ray, on tiny models."""

import subprocess
import sys
from pathlib import Path

import pytest
from shell import environment
from task_runs import BENCHMARKS


def printed_rows(script: str, *arguments: object) -> dict[str, list[str]]:
    """Run a script; return the cells of its table by the name of the row."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return {row[0]: row[1:] for row in cells}


def test_writing(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = printed_rows("hdf5_write.py", "--megabytes", 3, "--repeats", 1, "--folder", tmp_path)
    assert [*rows] == ["plain write", "hdf5", "parquet", "npy"]
    assert rows["plain write"][2] == "100%"
    assert all(float(row[2].rstrip("%")) > 0 for row in rows.values())
    assert list(tmp_path.iterdir()) == []


def test_checksums(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    small = ["--megabytes", 1, "--repeats", 1, "--folder", tmp_path]
    rows = printed_rows("vector_checksums.py", *small, "--out", tmp_path / "table.md")
    assert [*rows] == ["hdf5", "parquet", "npy"]
    assert all(float(row[0].removesuffix(" GB/s")) > 0 for row in rows.values())


def test_ray(tiny: Path) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("pyarrow")
    rows = printed_rows("ray_embed.py", tiny, "--tokens", 2000, "--repeats", 1)
    assert [*rows] == ["plain", "--ray local"]
    assert rows["plain"][1] == "1.00"
    assert float(rows["--ray local"][1]) > 0
