"""Checkpoints of a run: written whole or not at all, the last two kept.

    out/checkpoints/step-00001250/
      trainer.safetensors   weights, optimiser, LSTM states of all rows
      trainer.json          step, corpus, best perplexity so far
      recipe.toml           what is being trained

Random numbers and places in the corpus follow from seed and step (train/keys.py, train/rows.py), so
there is nothing else to keep.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.files import atomic_directory, read_json, to_json
from elmox.tensors import read_tensors, write_tensors
from elmox.train.recipe import Recipe, read_recipe

NUM_KEPT = 2

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        step: updates done.
        corpus: digest of the corpus it reads.
        seconds: spent training, in all its sessions.
        best_perplexity: the lowest on held-out text so far; None before the first.
        num_worse: evaluations since the best.
    """

    step: int
    corpus: str
    seconds: float = 0.0
    best_perplexity: float | None = None
    num_worse: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True)
class TrainingCheckpoint:
    """A checkpoint as it was read."""

    progress: Progress
    recipe: Recipe
    tensors: Mapping[str, Tensor]


def write_checkpoint(
    folder: Path, progress: Progress, recipe: Recipe, tensors: Mapping[str, Tensor]
) -> None:
    """Write a checkpoint into `folder`, then remove the oldest beyond the last two."""
    with atomic_directory(folder / f"step-{progress.step:08}") as new:
        write_tensors(tensors, new / "trainer.safetensors")
        (new / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
        (new / "trainer.json").write_bytes(to_json(asdict(progress)))
    for old in checkpoints(folder)[:-NUM_KEPT]:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def read_checkpoint(path: Path, recipe: Recipe, corpus_digest: str) -> TrainingCheckpoint:
    """Read a checkpoint, and refuse it where recipe or corpus are not those it was made with."""
    progress = validated(Progress, read_json(path / "trainer.json"), str(path / "trainer.json"))
    stored = read_recipe(path / "recipe.toml")
    changed = recipe.differences(stored)
    if changed:
        raise ElmoxError(
            f"{path} was made with another recipe: {', '.join(changed)} changed; go on with the "
            "old recipe, or start anew in another directory"
        )
    if progress.corpus != corpus_digest:
        raise ElmoxError(
            f"{path} was made on another corpus than {recipe.data.dir}: go on with the old one, or "
            "start anew in another directory"
        )
    return TrainingCheckpoint(progress, stored, read_tensors(path / "trainer.safetensors"))
