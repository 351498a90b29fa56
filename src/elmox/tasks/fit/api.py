"""`elmox.fit`: a task's model from labeled files, in one call. `elmox fit` calls it too."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.progress import Log
from elmox.tasks.fit.layers import cache_directory
from elmox.tasks.fit.results import Results
from elmox.tasks.fit.session import TaskSession
from elmox.tasks.recipe import TaskRecipe, changed, task_recipe


def fit(
    task: str,
    train: str | Path,
    dev: str | Path,
    test: str | Path | None = None,
    *,
    out: str | Path,
    elmo: str | Path | None = None,
    recipe: str | Path | TaskRecipe | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    seeds: int = 1,
    device: str | None = None,
    cache: str | Path | None = None,
    log: Log = lambda message: None,
    show_progress_bar: bool = False,
) -> Results:
    """Fit a task's model on labeled data.

        results = elmox.fit("ner", train="train.txt", dev="dev.txt", out="runs/ner")
        tagger = elmox.TaskPredictor.from_pretrained(results.model)

    ELMo's layers are computed once for each file and cached; only their mix and the task's network
    are trained, unless the setting `elmo.finetune` is true. An interrupted fit continues when the
    same call is repeated.

    Args:
        task: a name of `elmox.tasks.registry.TASKS`, such as `ner` or `classify`.
        train: labeled data to train on.
        dev: labeled data that selects the best epoch.
        test: labeled data that is scored once, by the model of the best epoch.
        out: directory for the run; the fitted models are in `out/seed-N/model`.
        elmo: any model that `Elmo.from_pretrained` loads, or `none` for a baseline without ELMo; by
            default the recipe's, `english-small` without a recipe.
        recipe: the name of a task, for the recipe that comes with elmox; the path of a TOML file;
            or a `TaskRecipe`. None for the defaults.
        settings: changes to the recipe: `{"fit.epochs": 5}` or `["fit.epochs=5"]`.
        seeds: number of fits, with consecutive seeds.
        device: `cpu`, `cuda`; by default a GPU if there is one.
        cache: directory for ELMo's layers; by default `ELMOX_CACHE`, or the user's cache.
        log: called with lines of progress, such as `print`.
        show_progress_bar: show one on stderr while layers are computed.

    Returns:
        Scores of all seeds, and the directory of the best model.

    Raises:
        ElmoxError: a file, a setting or the model is not as expected.
    """
    files = [Path(path) for path in (train, dev, test) if path is not None]
    for path in files:
        if not path.exists():
            raise ElmoxError(f"{path} does not exist: give a file of labeled data")
    changes = settings if isinstance(settings, Mapping) else list(settings)
    if isinstance(recipe, TaskRecipe):
        chosen = changed(recipe, changes)
    else:
        chosen = task_recipe(recipe, changes)
    if elmo is not None:
        chosen = changed(chosen, {"elmo.model": str(elmo)})
    session = TaskSession(
        task,
        *files,
        head=chosen.head,
        device=device,
        cache=cache_directory() if cache is None else Path(cache),
        log=log,
        show_progress_bar=show_progress_bar,
    )
    return session.fit(chosen, Path(out), num_seeds=seeds)
