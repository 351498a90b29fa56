"""Two processes with gloo; with NCCL where there are two GPUs (docs/training.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
import rank_jobs
import torch
from corpora import small_corpus
from forked import run_ranks, train_run
from training_runs import losses, tiny_recipe

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
DEVICES = ["cpu", pytest.param("cuda", marks=two_gpus)]
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-2}  # of losses; on a GPU, products are TF32


@pytest.mark.parametrize("device", DEVICES)
def test_two_processes_train_like_one(device: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(tiny_recipe(small_corpus(tmp_path), train={"max_steps": 12}).to_toml())
    train_run(recipe, [], tmp_path / "one", False, device)
    hide_gpus = device == "cpu"
    run_ranks(2, train_run, recipe, [], tmp_path / "two", False, device, hide_gpus=hide_gpus)
    np.testing.assert_allclose(
        losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=TOLERANCE[device]
    )


@pytest.mark.parametrize("device", DEVICES)
def test_bandwidth_and_a_step_of_both_are_measured(device: str, tmp_path: Path) -> None:
    recipe = tiny_recipe(small_corpus(tmp_path), train={"max_steps": 12})
    hide_gpus = device == "cpu"
    run_ranks(2, rank_jobs.plan_together, recipe, tmp_path, device, hide_gpus=hide_gpus)
    plans = [json.loads((tmp_path / f"{rank}.json").read_bytes()) for rank in range(2)]
    assert plans[0] == plans[1]
    assert plans[0]["num_processes"] == 2
    assert plans[0]["exchanged_bytes"] > 0
    assert 0 < plans[0]["bandwidth"] < 1e13
    assert 0 < plans[0]["joint_step_seconds"] < 10
