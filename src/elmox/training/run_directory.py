"""A run's directory: its content, and whether a run may start or continue there.

out/
  recipe.toml        the resolved recipe
  metrics.jsonl      every report
  checkpoints/       the last two
  best/              the model with the lowest held-out perplexity   (if text is held out)
  last/              the model at the end of the run
  .launch            id of the torchrun that started it
"""

from contextlib import ExitStack
from pathlib import Path

from elmox.errors import ElmoxError, RunExists
from elmox.io.files import atomic_write, writing
from elmox.io.locks import alone_in
from elmox.io.temporary import clear_leftovers
from elmox.training.checkpoint import checkpoints, remove_leftovers
from elmox.training.distributed import launch_id, was_restarted
from elmox.training.recipe import Recipe

# Written in this order: a directory with a recipe is that of a run, and can be resumed.
_FIRST = (".launch", "recipe.toml")


def enter(out: Path, recipe: Recipe, resume: bool, held: ExitStack) -> Path | None:
    """Prepare the directory; only the first process calls this.

    A process that torchrun started again after a crash continues, if the same torchrun started the
    run here. Files that a killed process left unfinished are removed.

    Args:
        out: the directory.
        recipe: the run's recipe.
        resume: continue from the last checkpoint, if there is one.
        held: holds the lock that keeps other processes from training there.

    Returns:
        The checkpoint to continue from; None if the run starts from the beginning.
    """
    if out.exists() and not out.is_dir():
        raise ElmoxError(f"{out} is a file, expected a directory to train in: choose another name")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        held.enter_context(alone_in(out, "training in"))
        for name in _FIRST:
            clear_leftovers(out / name)
    resume = resume or (was_restarted() and _launched_by(out) == launch_id())
    names = {path.name for path in out.iterdir()}
    stored = checkpoints(out / "checkpoints")
    is_run = names.issuperset(_FIRST)
    names.discard(".launch")  # without a recipe, no run has started
    if names and not resume:
        if stored or is_run:
            raise RunExists(out)
        raise ElmoxError(f"{out} is not empty: choose another directory")
    if names and "recipe.toml" not in names:
        raise ElmoxError(f"{out} is not the directory of a run: choose another one")
    if "last" in names and not stored:
        raise ElmoxError(
            f"{out} holds a run whose checkpoints are gone: start again in another directory"
        )
    for name in ("best", "last"):
        clear_leftovers(out / name)
    remove_leftovers(out / "checkpoints")
    for name, content in zip(_FIRST, (launch_id(), recipe.to_toml()), strict=True):
        with atomic_write(out / name) as path:
            path.write_text(content, encoding="utf-8")
    return stored[-1] if stored else None


def _launched_by(out: Path) -> str | None:
    path = out / ".launch"
    return path.read_text(encoding="utf-8") if path.exists() else None
