"""Plans: exact counts, real measurements, the formula for several devices."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corpora import small_corpus
from shell import run_here
from training_runs import tiny_recipe

from elmox.errors import ElmoxError
from elmox.training.plan import Plan, plan
from elmox.training.recipe import read_recipe


def test_plan(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)
    recipe = tiny_recipe(corpus, train={"max_steps": 40})
    estimate = plan(recipe, device="cpu", seconds=0.2)
    lstm = 2 * 2 * (24 * 4 * (12 + 12 + 1) + 12 * 24)
    encoder = 262 * 16 + 8 * (1 + 2 + 3) * 16 + 24 + 2 * (24 * 24 + 24) + 24 * 12 + 12
    assert estimate.num_body == lstm + encoder
    assert estimate.num_softmax == corpus.vocab_size * 13
    # Weights and AdamW's two arrays; gradients are what is exchanged.
    stored = 4 * 3 * (estimate.num_body + estimate.num_softmax)
    assert estimate.weight_bytes == stored + estimate.exchanged_bytes
    assert estimate.activation_bytes == 80 * 2 * 2 * 4 * (4 * 24 + 3 * 12 + 24)
    assert estimate.num_steps == 40
    assert estimate.tokens_per_second == pytest.approx(80 / estimate.step_seconds)
    assert estimate.total_seconds == pytest.approx(40 * estimate.step_seconds)
    # Sampled softmax exchanges the body and the touched rows: at most samples and targets.
    assert (
        4 * estimate.num_body
        < estimate.exchanged_bytes
        <= 4 * (estimate.num_body + 13 * (2 * 64 + 160))
    )
    slow = replace(estimate, step_seconds=1.0, exchanged_bytes=10**9, num_steps=10)
    assert slow.seconds_on(1, 1e9) == pytest.approx(10.0)
    assert slow.seconds_on(4, 1e9) == pytest.approx(10 * (0.25 + 1.5))


def test_memory_of_other_recipes(tmp_path: Path) -> None:
    corpus = small_corpus(tmp_path)

    def planned(**parts: dict[str, Any]) -> Plan:
        return plan(tiny_recipe(corpus, **parts), device="cpu", seconds=0.01)

    # All of a full softmax has gradients; Adagrad has one array.
    full = planned(softmax={"loss": "full"}, optim={"name": "adagrad"})
    assert full.weight_bytes == 4 * 3 * (full.num_body + full.num_softmax)
    # A frozen body has neither gradients nor optimizer state.
    frozen = planned(train={"freeze": "body"})
    weights = 4 * (frozen.num_body + frozen.num_softmax)
    assert frozen.weight_bytes == weights + 4 * 2 * frozen.num_softmax + frozen.exchanged_bytes
    assert frozen.exchanged_bytes <= 4 * 13 * (2 * 64 + 160)
    assert frozen.activation_bytes == full.activation_bytes / 2  # one layer at a time
    # Half the bytes, except for the cells.
    low = planned(train={"precision": "bfloat16", "accumulate": 2})
    assert low.activation_bytes == 40 * 2 * 2 * (2 * (4 * 24 + 3 * 12) + 4 * 24)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"model": {"lstm": {"cell_dim": 10**13}}}, id="torch"),
        pytest.param({"train": {"steps": 10**13}}, id="numpy"),
    ],
)
def test_out_of_memory(parts: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny_recipe(small_corpus(tmp_path), **parts)
    with pytest.raises(ElmoxError, match=r"out of memory: .*train\.accumulate.*train\.rows"):
        plan(recipe, device="cpu")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(tiny_recipe(small_corpus(tmp_path)).to_toml(), encoding="utf-8")
    return path


def test_command(recipe_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", recipe_file, "--seconds", 0.1, "--devices", 8, "--device", "cpu"]
    code, out, err = run_here(arguments, capsys)
    assert code == 0, err
    for word in ("parameters", "memory", "text", "time", "on 8", "step / N + 2 (N - 1) / N"):
        assert word in out
    assert "evaluations not included" in out
    values = json.loads(run_here([*arguments, "--json"], capsys)[1])
    assert values["seconds_on"]["8"] > 0
    assert values["num_steps"] == 30


def test_measurements_of_several_processes_are_printed(
    recipe_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = plan(read_recipe(str(recipe_file)), device="cpu", seconds=0.01)
    both = replace(alone, num_processes=2, bandwidth=1.5e9, joint_step_seconds=2.0)
    monkeypatch.setattr("elmox.training.plan.plan", lambda *_, **__: both)
    out = run_here(["plan", recipe_file], capsys)[1]
    assert "on 2, 1.5 GB/s between them (measured)" in out
    assert "exchanged per step at 1.5 GB/s (computed)" in out
    monkeypatch.setenv("RANK", "1")
    assert run_here(["plan", recipe_file], capsys)[:2] == (0, "")


@pytest.mark.parametrize("option", ["--devices", "--bandwidth", "--seconds"])
def test_numbers_above_zero(
    option: str, recipe_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in (0, -1):
        code, out, err = run_here(["plan", recipe_file, option, value], capsys)
        assert (code, out) == (2, "")
        assert option in err.splitlines()[-1]
