"""A run's directory: what is in it, and whether a run may begin or go on there.

out/
  recipe.toml        the resolved recipe
  metrics.jsonl      every report
  checkpoints/       the last two, to go on from
  best/              the model with the lowest held-out perplexity   (where text is held out)
  last/              the model as the run left it
  .launch            which torchrun began it
"""

from pathlib import Path

from elmox.errors import ElmoxError
from elmox.files import atomic_write, recover_directory
from elmox.train.checkpoint import checkpoints, remove_leftovers
from elmox.train.distributed import launch_id, was_restarted
from elmox.train.recipe import Recipe


def enter(out: Path, recipe: Recipe, resume: bool) -> Path | None:
    """Make the directory ready; only the first process calls this.

    A process that torchrun started again after a crash goes on, if that same torchrun began the run
    here. What a kill left half-written is cleared away.

    Returns:
        The checkpoint to go on from; None where the run begins.
    """
    resume = resume or (was_restarted() and _launched_by(out) == launch_id())
    names = {path.name for path in out.iterdir()} if out.exists() else set()
    found = checkpoints(out / "checkpoints")
    if names and not resume:
        how = "go on with --resume, or choose" if found else "choose"
        raise ElmoxError(f"{out} is not empty: {how} another directory")
    if names and "recipe.toml" not in names:
        raise ElmoxError(f"{out} is not the directory of a run: choose another one")
    if "last" in names and not found:
        raise ElmoxError(
            f"{out} holds a run whose checkpoints are gone: start anew in another directory"
        )
    for name in ("best", "last"):
        recover_directory(out / name)
    remove_leftovers(out / "checkpoints")
    for name, content in (("recipe.toml", recipe.to_toml()), (".launch", launch_id())):
        with atomic_write(out / name) as path:
            path.write_text(content, encoding="utf-8")
    return found[-1] if found else None


def _launched_by(out: Path) -> str | None:
    path = out / ".launch"
    return path.read_text(encoding="utf-8") if path.exists() else None
