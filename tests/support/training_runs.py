"""Tiny training runs and their reports."""

import json
from pathlib import Path
from typing import Any

from elmox.training.corpus.corpus import Corpus
from elmox.training.recipe import Recipe, recipe_from_dict


def tiny_recipe(corpus: Corpus, **parts: dict[str, Any]) -> Recipe:
    """Return a recipe of a few steps of a tiny model; `parts` changes settings by section."""
    values: dict[str, dict[str, Any]] = {
        "data": {"dir": str(corpus.path)},
        "model": {
            "preset": "small",
            "lstm": {"cell_dim": 24, "projection_dim": 12},
            "char_cnn": {"filters": [[1, 8], [2, 8], [3, 8]], "num_highways": 1},
        },
        "softmax": {"samples": 64},
        "train": {"rows": 8, "steps": 10, "max_steps": 30},
        "optim": {"name": "adamw", "lr": 0.02, "clip_norm": 1.0, "sum_over_steps": False},
        "report": {"log_every": 1, "eval_every": 15, "eval_rows": 4, "save_every": 10},
    }
    for name, settings in parts.items():
        values[name] = {**values.get(name, {}), **settings}
    return recipe_from_dict(values, "test")


def metrics(out: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a run's metrics.jsonl; none if there is no such file yet."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def losses(out: Path, name: str = "sampled_loss") -> list[float]:
    """Return the losses that a run has reported, in order."""
    return [line[name] for line in metrics(out) if name in line]
