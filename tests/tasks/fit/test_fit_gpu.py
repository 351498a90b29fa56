"""Fits on a GPU: as on a CPU except for rounding, and the stored model is the learned one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from fits import fit_task
from tagged_files import NAMES, write_columns

from elmox.tasks.fit.results import Results
from elmox.tasks.predictor import TaskPredictor
from elmox.tasks.recipe import task_recipe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SMALL = ["words.dim=8", "words.filters=8", "words.min_count=1", "head.hidden=[12, 12]"]
NO_DROPOUT = ["head.dropout=0", "words.dropout=0", "elmo.dropout=0"]
SHORT = ["fit.lr=0.02", "fit.batch_size=4", "fit.epochs=4", "fit.patience=9", "fit.least_updates=1"]
FINETUNE = pytest.mark.parametrize("finetune", [False, True])


def fit_names(
    tiny: Path, folder: Path, name: str, device: str, finetune: bool, **options: Any
) -> Results:
    data = write_columns(folder / "names.txt", NAMES)
    changes = [f"elmo.model={tiny}", f"elmo.finetune={str(finetune).lower()}", "elmo.lr=0.01"]
    chosen = task_recipe(None, [*SMALL, *NO_DROPOUT, *SHORT, *changes])
    cache = folder / "cache"
    return fit_task("ner", chosen, data, data, folder / name, device=device, cache=cache, **options)


def losses(folder: Path) -> list[float]:
    lines = (folder / "seed-0" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@FINETUNE
def test_the_losses_are_those_of_a_cpu(finetune: bool, tiny: Path, tmp_path: Path) -> None:
    for device in ("cpu", "cuda"):
        fit_names(tiny, tmp_path, device, device, finetune)
    first, second = losses(tmp_path / "cpu"), losses(tmp_path / "cuda")
    assert second == pytest.approx(first, rel=0.02)
    assert first[-1] < 0.9 * first[0]


@FINETUNE
def test_an_interrupted_fit_goes_on(finetune: bool, tiny: Path, tmp_path: Path) -> None:
    fit_names(tiny, tmp_path, "whole", "cuda", finetune)

    def interrupt(message: str) -> None:
        if message.startswith("epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_names(tiny, tmp_path, "halves", "cuda", finetune, log=interrupt)
    fit_names(tiny, tmp_path, "halves", "cuda", finetune)
    assert losses(tmp_path / "halves") == pytest.approx(losses(tmp_path / "whole"), rel=1e-3)


@FINETUNE
def test_the_stored_model_is_the_learned_one(finetune: bool, tiny: Path, tmp_path: Path) -> None:
    results = fit_names(tiny, tmp_path, "run", "cuda", finetune)
    for device in ("cpu", "cuda"):
        score = TaskPredictor.from_pretrained(results.best.model, device=device).score(
            tmp_path / "names.txt"
        )
        assert score["f1"] == pytest.approx(results.mean["dev"])
