"""Checkpoints of a run: written atomically, the last two kept.

    out/checkpoints/step-00001250/
      trainer.safetensors   weights, optimizer, LSTM states of all rows
      trainer.json          the run's progress
      recipe.toml           the resolved recipe

Random numbers and positions in the corpus follow from seed and step (keys.py, rows.py), so nothing
else is stored.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from elmox.config import Strict, validated
from elmox.errors import ElmoxError
from elmox.io.checksums import verifying, write_checksums
from elmox.io.files import atomic_directory, read_json, to_json
from elmox.io.temporary import clear_leftovers, discard, is_leftover
from elmox.io.tensors import read_tensors, write_tensors
from elmox.training.divergence import LossCourse
from elmox.training.recipe import Recipe, read_recipe

NUM_KEPT = 2

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class RunProgress(Strict):
    """The progress of a run.

    Attributes:
        step: number of updates done.
        corpus: digest of the corpus.
        lr: learning rate of the last update; None before the first.
        seconds: time spent training, including the time before interruptions.
        loss_sum, loss_count: of the steps since the last report, for the next one.
        evaluated: the step of the last evaluation; 0 before the first.
        perplexity: held-out perplexity of the last evaluation.
        best_perplexity: the lowest so far.
        num_worse: number of evaluations since the lowest.
        course: summary of the reported losses.
        num_steps: number of updates of the whole run, if `train.max_hours` has set it.
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
    num_steps: int | None = None


def write_checkpoint(
    folder: Path, progress: RunProgress, recipe: Recipe, tensors: Mapping[str, Tensor]
) -> None:
    """Write a checkpoint into `folder`, then remove the oldest beyond the last two."""
    with atomic_directory(folder / f"step-{progress.step:08}") as new:
        write_tensors(tensors, new / "trainer.safetensors")
        (new / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
        write_checksums(new)  # before the progress, which contains times: no two runs have the same
        (new / "trainer.json").write_bytes(to_json(asdict(progress)))
    _remove_oldest(folder)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in `folder`, oldest first."""
    if not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(paths, key=lambda path: int(path.name.removeprefix("step-")))


def remove_leftovers(folder: Path) -> None:
    """Remove what a process that was killed while writing left behind."""
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
    """Read a checkpoint.

    Raises:
        ElmoxError: if it is damaged, or was made with another recipe or corpus.
    """
    values = read_json(path / "trainer.json")
    progress = validated(RunProgress, values, str(path / "trainer.json"))
    changed = recipe.differences(read_recipe(path / "recipe.toml"))
    if changed:
        raise ElmoxError(
            f"{path} was made with another recipe ({', '.join(changed)} changed): continue with "
            "the old recipe, or start again in another directory"
        )
    if progress.corpus != corpus_digest:
        raise ElmoxError(
            f"{path} was made on another corpus than {recipe.data.dir}: continue with the old "
            "corpus, or start again in another directory"
        )
    try:
        with verifying(path, ("trainer.safetensors",)):
            return progress, read_tensors(path / "trainer.safetensors")
    except ElmoxError as error:
        older = checkpoints(path.parent)[:-1]
        advice = f": remove it to continue from {older[-1].name}" if older else ""
        raise ElmoxError(f"{error}{advice}") from error
