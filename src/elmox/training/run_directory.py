"""A run's directory: what is in it, and whether a run may begin or go on there.

out/
  recipe.toml        the resolved recipe
  metrics.jsonl      every report
  checkpoints/       the last two, to go on from
  best/              the model with the lowest held-out perplexity   (where text is held out)
  last/              the model as the run left it
  .launch            which torchrun began it
"""

from contextlib import ExitStack
from pathlib import Path

from elmox.errors import ElmoxError
from elmox.io.files import atomic_write, writing
from elmox.io.locks import alone_in
from elmox.io.temporary import clear_leftovers
from elmox.training.checkpoint import checkpoints, remove_leftovers
from elmox.training.distributed import launch_id, was_restarted
from elmox.training.recipe import Recipe

# In this order: a directory with the recipe is that of a run, and can be resumed.
_FIRST = (".launch", "recipe.toml")


def enter(out: Path, recipe: Recipe, resume: bool, held: ExitStack) -> Path | None:
    """Make the directory ready; only the first process calls this.

    A process that torchrun started again after a crash goes on, if that same torchrun began the run
    here. What a kill left half-written is cleared away.

    Args:
        out: the directory.
        recipe: what is trained.
        resume: go on where there is something to go on from.
        held: keeps other processes from training there until it is closed.

    Returns:
        The checkpoint to go on from; None where the run begins.
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
    found = checkpoints(out / "checkpoints")
    is_run = names.issuperset(_FIRST)
    names.discard(".launch")  # without a recipe, no run has begun
    if names and not resume:
        how = "go on with --resume, or choose" if found or is_run else "choose"
        raise ElmoxError(f"{out} is not empty: {how} another directory")
    if names and "recipe.toml" not in names:
        raise ElmoxError(f"{out} is not the directory of a run: choose another one")
    if "last" in names and not found:
        raise ElmoxError(
            f"{out} holds a run whose checkpoints are gone: start anew in another directory"
        )
    for name in ("best", "last"):
        clear_leftovers(out / name)
    remove_leftovers(out / "checkpoints")
    for name, content in zip(_FIRST, (launch_id(), recipe.to_toml()), strict=True):
        with atomic_write(out / name) as path:
            path.write_text(content, encoding="utf-8")
    return found[-1] if found else None


def _launched_by(out: Path) -> str | None:
    path = out / ".launch"
    return path.read_text(encoding="utf-8") if path.exists() else None
