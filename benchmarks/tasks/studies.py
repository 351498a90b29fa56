"""Studies of the table in this process: `elmox ablate` with the setup stored next to the result.

Variants are fitted one by one, possibly in separate processes; the table is made when all are
there. A fit that the table of tasks contains too is made once, for both.

STUDY-setup.json is written before the first fit, so that an interrupted study is not continued
with another recipe or another biLM.
"""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from elmox.io.files import atomic_write, read_json, to_json
from tasks.commands import without_absolute_paths
from tasks.plan import TASKS
from tasks.records import Fit, Setup, check_made_with, recipe_values

if TYPE_CHECKING:
    from elmox.tasks.fit.ablation import Study, Variant
    from elmox.tasks.fit.session import TaskSession


def table_path(work: Path, task: str, study: str) -> Path:
    """Return the path of a study's table."""
    return work / "ablations" / task / f"{study}.json"


def setup_path(work: Path, task: str, study: str) -> Path:
    """Return the path of a study's setup: its recipe and its biLM."""
    return work / "ablations" / task / f"{study}-setup.json"


def variants_of(study: "Study") -> "list[Variant]":
    """Return the variants that a study compares."""
    from elmox.tasks.fit.ablation import STUDIES

    return STUDIES[study]


def is_study_done(setup: Setup, task: str, study: str, num_seeds: int) -> bool:
    """Whether there is a table of at least as many seeds.

    One of another recipe or another biLM is refused.
    """
    path, table = (path_of(setup.work, task, study) for path_of in (setup_path, table_path))
    if not path.exists():
        return False
    check_made_with(setup, path, read_json(path), recipe=setup.study_recipe(task), encoder="elmo")
    return table.exists() and int(read_json(table)["num_seeds"]) >= num_seeds


def fits_folder(setup: Setup, task: str) -> Path:
    """Return the folder of the fits of a task's studies."""
    return setup.work / "ablations" / task / "fits"


def fits_path(setup: Setup, task: str, variant: "Variant") -> Path:
    """Return the folder of a variant's fits, which several studies of the task may share."""
    from elmox.tasks.fit.ablation import variant_folder

    return variant_folder(setup.study_recipe(task), variant, fits_folder(setup, task))


@cache  # reads many recipes, and is called whenever a job has ended
def same_in_table(setup: Setup, task: str, variant: "Variant") -> Fit | None:
    """A fit of the table with the recipe of a variant, if there is one: its seeds serve both."""
    from elmox.tasks.recipe import changed

    if variant.share < 1:
        return None
    recipe = changed(setup.study_recipe(task), variant.changes)
    fits = (
        Fit(task, column.name, number)
        for column in TASKS[task].columns
        if column.encoder in ("none", "elmo")
        for number in range(len(TASKS[task].trials))
    )
    return next((fit for fit in fits if setup.recipe(fit) == recipe), None)


def is_variant_done(setup: Setup, task: str, variant: "Variant", num_seeds: int) -> bool:
    """Whether a variant has been fitted with at least as many seeds."""
    path = fits_path(setup, task, variant) / "results.json"
    return path.exists() and len(read_json(path)["seeds"]) >= num_seeds


def do_variant(setup: Setup, task: str, study: "Study", variant: "Variant", num_seeds: int) -> None:
    """Fit one variant, or continue it.

    On small data sets this includes variants that the table skips because another share has the
    same examples, which depends on the data. A share with nothing to learn from is refused.
    """
    from elmox.tasks.fit.ablation import fit_variant

    session = _begun(setup, task, study, num_seeds)
    recipe, folder = setup.study_recipe(task), fits_folder(setup, task)
    fit_variant(session, recipe, variant, folder, num_seeds=num_seeds)


def do_study(setup: Setup, task: str, study: "Study", num_seeds: int) -> None:
    """Fit all missing variants, and write table and pictures."""
    from elmox.bench.machine import machine_facts, machine_line
    from elmox.cli.ablate import write_study
    from elmox.inference.device import resolve_device
    from elmox.tasks.fit.ablation import ablate

    if is_study_done(setup, task, study, num_seeds):
        return
    session = _begun(setup, task, study, num_seeds)
    about = {
        "command": f"`{setup.command}`",
        "ELMo": without_absolute_paths(setup.elmo),
        "machine": machine_line(machine_facts(resolve_device(setup.device))),
    }
    study_result = ablate(
        session,
        setup.study_recipe(task),
        study,
        fits_folder(setup, task),
        num_seeds=num_seeds,
        about=about,
        log=_log,
    )
    write_study(study_result, setup.work / "ablations" / task, _log)


def _begun(setup: Setup, task: str, study: "Study", num_seeds: int) -> "TaskSession":
    """Read the task's files and store the study's setup."""
    from elmox.tasks.fit.session import TaskSession

    is_study_done(setup, task, study, num_seeds)  # refuses another recipe or biLM
    recipe = setup.study_recipe(task)
    made_with = {"recipe": recipe_values(recipe), "encoder": {"digest": setup.digest("elmo")}}
    with atomic_write(setup_path(setup.work, task, study)) as temporary:
        temporary.write_bytes(to_json(made_with))
    for variant in variants_of(study):
        _share_with_table(setup, task, variant)
    train, dev, _ = setup.files(task)
    cache = setup.work / "cache"
    return TaskSession(task, train, dev, device=setup.device, cache=cache, log=_log)


def _share_with_table(setup: Setup, task: str, variant: "Variant") -> None:
    """Link a variant's folder to the table's fit of the same recipe, if there is one."""
    same, path = same_in_table(setup, task, variant), fits_path(setup, task, variant)
    if same is None:
        return
    folder = same.folder(setup.work)
    for needed in (folder, path.parent):
        needed.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # fitted apart from the table, or linked already
        path.symlink_to(os.path.relpath(folder, path.parent))


def _log(message: str) -> None:
    print(message, flush=True)
