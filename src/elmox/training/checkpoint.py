"""Checkpoints of a run: written whole or not at all, the last two kept.

    out/checkpoints/step-00001250/
      trainer.safetensors   weights, optimizer, LSTM states of all rows
      trainer.json          how far the run is
      recipe.toml           what is being trained

Random numbers and positions in the corpus follow from seed and step (keys.py, rows.py), so there is
nothing else to keep.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.files import atomic_directory, read_json, to_json
from elmox.io.temporary import clear_leftovers, discard, is_leftover
from elmox.io.tensors import read_tensors, write_tensors
from elmox.training.divergence import LossCourse
from elmox.training.recipe import Recipe, read_recipe

NUM_KEPT = 2

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class RunProgress:
    """How far a run is.

    Attributes:
        step: updates done.
        corpus: digest of the corpus it reads.
        lr: learning rate of the last update; None before the first.
        seconds: spent training, in all its sessions.
        loss_sum, loss_count: of the steps since the last report, for the next one.
        evaluated: the step of the last held-out perplexity; 0 before the first.
        perplexity: that perplexity.
        best_perplexity: the lowest so far.
        num_worse: evaluations since the best.
        course: of the reported losses.
    """

    step: int
    corpus: str
    lr: float | None = None
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    evaluated: int = 0
    perplexity: float | None = None
    best_perplexity: float | None = None
    num_worse: int = 0
    course: LossCourse = field(default_factory=LossCourse)

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


def write_checkpoint(
    folder: Path, progress: RunProgress, recipe: Recipe, tensors: Mapping[str, Tensor]
) -> None:
    """Write a checkpoint into `folder`, then remove the oldest beyond the last two."""
    with atomic_directory(folder / f"step-{progress.step:08}") as new:
        write_tensors(tensors, new / "trainer.safetensors")
        (new / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
        (new / "trainer.json").write_bytes(to_json(asdict(progress)))
    _remove_oldest(folder)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def remove_leftovers(folder: Path) -> None:
    """Clear away what a kill while writing left behind."""
    if folder.is_dir():
        hidden = [p.name for p in folder.iterdir() if is_leftover(p.name)]
        for name in {name.split(".")[1] for name in hidden}:
            clear_leftovers(folder / name)
        _remove_oldest(folder)


def _remove_oldest(folder: Path) -> None:
    for old in checkpoints(folder)[:-NUM_KEPT]:
        discard(old)


def read_checkpoint(
    path: Path, recipe: Recipe, corpus_digest: str
) -> tuple[RunProgress, dict[str, Tensor]]:
    """Read a checkpoint, and refuse it where recipe or corpus are not those it was made with."""
    values = read_json(path / "trainer.json")
    progress = validated(RunProgress, values, str(path / "trainer.json"))
    changed = recipe.differences(read_recipe(path / "recipe.toml"))
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
    try:
        return progress, read_tensors(path / "trainer.safetensors")
    except ElmoxError as error:
        older = checkpoints(path.parent)[:-1]
        advice = f": remove it to go on from {older[-1].name}" if older else ""
        raise ElmoxError(f"{error}{advice}") from error
