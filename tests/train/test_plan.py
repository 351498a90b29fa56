"""Plans: counted exactly, measured really, computed by the formula shown."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from corpora import small_corpus
from shell import run_elmox
from training_runs import tiny_recipe

from elmox.train.plan import plan


def test_plan(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    recipe = tiny_recipe(corpus, train={"max_steps": 40})
    found = plan(recipe, device="cpu", seconds=0.2)
    lstm = 2 * 2 * (24 * 4 * (12 + 12 + 1) + 12 * 24)
    encoder = 262 * 16 + 8 * (1 + 2 + 3) * 16 + 24 + 2 * (24 * 24 + 24) + 24 * 12 + 12
    assert found.num_body == lstm + encoder
    assert found.num_softmax == corpus.vocab_size * 13
    assert found.weight_bytes == 4 * 4 * (found.num_body + found.num_softmax)
    assert found.num_steps == 40
    assert found.tokens_per_second == pytest.approx(80 / found.step_seconds)
    assert found.total_seconds == pytest.approx(40 * found.step_seconds)
    # Sampled softmax exchanges the body and the touched rows: at most samples and targets.
    assert 4 * found.num_body < found.exchanged_bytes <= 4 * (found.num_body + 13 * (2 * 64 + 160))
    slow = replace(found, step_seconds=1.0, exchanged_bytes=10**9, num_steps=10)
    assert slow.seconds_on(1, 1e9) == pytest.approx(10.0)
    assert slow.seconds_on(4, 1e9) == pytest.approx(10 * (0.25 + 1.5))


def test_command(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    path = tmp_path / "recipe.toml"
    path.write_text(tiny_recipe(corpus).to_toml(), encoding="utf-8")
    arguments = ("plan", path, "--seconds", 0.1, "--devices", 8, "--device", "cpu")
    done = run_elmox(*arguments)
    assert done.returncode == 0, done.stderr
    for word in ("parameters", "memory", "text", "time", "on 8", "step / N + 2 (N - 1) / N"):
        assert word in done.stdout
    values = json.loads(run_elmox(*arguments, "--json").stdout)
    assert values["seconds_on"]["8"] > 0
    assert values["num_steps"] == 30
