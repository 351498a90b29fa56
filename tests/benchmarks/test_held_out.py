"""The script that measures models on held-out texts."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from language_models import tiny_lm
from shell import environment
from task_runs import BENCHMARKS

from elmox import Elmo


def test_perplexities_of_texts_and_gaps(tmp_path: Path) -> None:
    tiny_lm(tmp_path / "lm").elmo().save_pretrained(tmp_path / "model")
    (tmp_path / "news.valid.txt").write_text("The cat sat.\n\nThe cat sat. The cat.\n", "utf-8")
    (tmp_path / "blog.valid.txt").write_text("The naïve cat.\n", "utf-8")
    command = [sys.executable, str(BENCHMARKS / "held_out.py"), str(tmp_path / "model")]
    command += ["--texts", str(tmp_path / "*.valid.txt"), "--isolated", "2", "--device", "cpu"]
    command += ["--out", str(tmp_path / "result.json")]
    done = subprocess.run(command, env=environment(), capture_output=True, check=True, text=True)
    (result,) = json.loads((tmp_path / "result.json").read_text())
    assert list(result["perplexities"]) == ["blog", "news"]
    elmo = Elmo.from_pretrained(tmp_path / "model")
    news = result["perplexities"]["news"]
    both = ["The cat sat.", "The cat sat.", "The cat."]
    assert news["running"] == pytest.approx(elmo.evaluate(both).perplexity)
    scores = elmo.score(both[:2])
    mean = sum(score.log_prob for score in scores) / sum(len(score.tokens) + 1 for score in scores)
    assert news["isolated"] == pytest.approx(math.exp(-mean))
    assert "| blog | news | geometric mean |" in done.stdout
    means = [
        math.sqrt(math.prod(text[kind] for text in result["perplexities"].values()))
        for kind in ("running", "isolated")
    ]
    assert all(f"{mean:.1f}" in done.stdout for mean in means)
    assert len(result["gaps"]["The film was ___ ."]) == 5
