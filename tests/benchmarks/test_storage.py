"""The script that measures number formats, on a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from language_models import tiny_lm
from shell import environment
from task_runs import BENCHMARKS

TEXT = "The cat sat . The naïve cat sat .\n\nThe cat .\n"


def test_sizes_cosines_and_perplexities(tmp_path: Path) -> None:
    tiny_lm(tmp_path / "lm").elmo().save_pretrained(tmp_path / "full")
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    command = [sys.executable, str(BENCHMARKS / "storage.py"), str(tmp_path / "full")]
    command += ["--text", str(tmp_path / "text.txt"), "--device", "cpu"]
    command += ["--results", str(tmp_path / "results"), "--out", "tiny"]
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    values = json.loads((tmp_path / "results" / "tiny.json").read_text())
    formats = values["formats"]
    assert list(formats) == ["float32", "float16", "int8"]
    sizes = [entry["files"]["model.safetensors"]["bytes"] for entry in formats.values()]
    assert sizes[0] > sizes[1] > sizes[2]
    assert [layer["mean"] for layer in formats["float32"]["cosines"]] == pytest.approx([1.0] * 3)
    assert 0.99 < min(layer["mean"] for layer in formats["int8"]["cosines"]) < 1.0
    perplexities = [entry["perplexity"]["perplexity"] for entry in formats.values()]
    assert perplexities[1:] == pytest.approx([perplexities[0]] * 2, rel=0.05)
    assert perplexities[2] != perplexities[0]
    shown = (tmp_path / "results" / "tiny.md").read_text()
    assert str(tmp_path) not in shown
    assert "| mean cosine, lowest layer |" in shown
