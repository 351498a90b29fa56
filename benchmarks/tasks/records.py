"""The fits of the table: pending ones, and the record of each, a JSON file.

WORK/data/       the corpora, split
WORK/cache/      layers of biLM and MiniLM
WORK/fits/       the fits themselves, which continue after an interruption
WORK/results/TASK/COLUMN/trial-K.json   a setting that was tried, with seed 0: dev scores
WORK/results/TASK/COLUMN/seed-S.json    the chosen setting: test scores and counts as well
WORK/ablations/TASK/STUDY.json          as `elmox ablate` writes it
WORK/ablations/TASK/STUDY-setup.json    the study's recipe and its biLM
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.tasks.recipe import TaskRecipe, recipe_from_dict, task_recipe
from tasks.corpora import DATA, Files, corpus_files
from tasks.encoders import elmo_digest, minilm_digest
from tasks.plan import COLUMNS, RECIPES, TASKS, recipe_for


@dataclass(frozen=True)
class Fit:
    """One fit: a setting that is tried, or a seed of the chosen one, which is tested."""

    task: str
    column: str
    trial: int
    seed: int = 0
    tested: bool = False

    @property
    def _what(self) -> str:
        return f"seed-{self.seed}" if self.tested else f"trial-{self.trial}"

    @property
    def name(self) -> str:
        """Name in messages and log files."""
        return f"{self.task}-{self.column}-{self._what}"

    def cost(self, work: Path) -> float:
        """Estimate the minutes until the fit and those that wait for it are done.

        Infinite for a job that only has to be finished: the test of a trial whose fit exists.
        """
        is_fitted = self.tested and self.seed == 0 and (self.folder(work) / "seed-0").exists()
        return math.inf if is_fitted else TASKS[self.task].cost * (1 if self.tested else 2)

    def folder(self, work: Path) -> Path:
        """Folder of the fit, with all seeds of the same setting."""
        return work / "fits" / self.task / self.column / f"trial-{self.trial}"

    def path(self, work: Path) -> Path:
        """Path of its record."""
        return work / "results" / self.task / self.column / f"{self._what}.json"


@dataclass(frozen=True)
class Setup:
    """Folders, models and options of a run.

    Attributes:
        work: the folder of all that is made.
        data: the published corpora.
        recipes: the tasks' recipes.
        elmo: the biLM.
        original: one of the original size, if available.
        minilm: MiniLM's folder; None for that of the installed package.
        device: cpu, cuda; a GPU if there is one by default.
        changes: of all recipes, as `--set` has them.
        parallel_fits: number of fits that share the machine, for the record.
        command: the command line, for the record.
    """

    work: Path
    data: Path = DATA
    recipes: Path = RECIPES
    elmo: str = BUNDLED
    original: str | None = None
    minilm: Path | None = None
    device: str | None = None
    changes: tuple[str, ...] = ()
    parallel_fits: int = 1
    command: str = ""

    def files(self, task: str) -> Files:
        """Return the files of a task's corpus."""
        return corpus_files(TASKS[task].corpus, self.data, self.work / "data")

    def recipe(self, fit: Fit) -> TaskRecipe:
        """Return the recipe of a fit."""
        task, column = TASKS[fit.task], COLUMNS[fit.column]
        return recipe_for(
            task,
            column,
            task.trials[fit.trial],
            fit.seed,
            elmo=self.bilm(column.encoder),
            recipes=self.recipes,
            changes=self.changes,
        )

    def study_recipe(self, task: str) -> TaskRecipe:
        """Return the recipe that all variants of a task's studies start from."""
        model = f"elmo.model={json.dumps(self.elmo)}"
        return task_recipe(self.recipes / f"{task}.toml", [*self.changes, model])

    def bilm(self, encoder: str) -> str:
        """The biLM of a column with this encoder."""
        if encoder != "original":
            return self.elmo
        if self.original is None:
            raise ElmoxError("the column of the original size needs its biLM: --original FOLDER")
        return self.original

    def digest(self, encoder: str) -> str | None:
        """Return the digest of a column's encoder, None without one. Computed once per process."""
        if encoder == "none":
            return None
        return (
            minilm_digest(self.minilm) if encoder == "minilm" else elmo_digest(self.bilm(encoder))
        )


def pending(
    setup: Setup,
    tasks: Sequence[str],
    columns: Sequence[str],
    *,
    num_trials: int | None = None,
    num_seeds: int,
    ahead: bool = False,
) -> list[Fit]:
    """Fits that can be done now: trials, and seeds of settings that have been chosen.

    Args:
        setup: where they are done.
        tasks, columns: of which.
        num_trials: settings to try; None for each task's own number.
        num_seeds: of the chosen setting.
        ahead: whether to begin further seeds of what is the best setting so far, while others are
            tried. Where another one is better, they are done again with that.
    """
    fits: list[Fit] = []
    for task in tasks:
        for column in TASKS[task].columns:
            if column.name not in columns:
                continue
            trials = [Fit(task, column.name, k) for k in range(len(TASKS[task].trials))]
            tried = trials[: num_trials or TASKS[task].tried]
            records = {fit: read_record(setup, fit) for fit in tried}
            known = [record for record in records.values() if record is not None]
            missing = [fit for fit, record in records.items() if record is None]
            if ahead or not missing:
                best = chosen_trial(known) if known else 0
                first = 0 if not missing else 1  # the trial itself is seed 0, and not tested yet
                seeds = [Fit(task, column.name, best, s, True) for s in range(first, num_seeds)]
                missing += [fit for fit in seeds if read_record(setup, fit) is None]
            fits += missing
    return fits


def chosen_trial(trials: Sequence[dict[str, Any]], seeds: Sequence[dict[str, Any]] = ()) -> int:
    """The number of the trial with the best score on the dev data, the first of equal ones.

    Args:
        trials: records of all that may be chosen.
        seeds: records of what has been chosen. A trial that none of them has was not chosen: it was
            tried in another run, with more `--trials`, or has become the best since.
    """
    fitted = {record["trial"] for record in seeds}
    known = [record for record in trials if record["trial"] in fitted] if seeds else trials
    best = min(
        known or seeds, key=lambda record: (-record["dev"][record["metric"]], record["trial"])
    )
    return int(best["trial"])


def read_record(setup: Setup, fit: Fit) -> dict[str, Any] | None:
    """The result of a fit; None where there is none yet.

    One of another recipe or another model is refused. A tested one of a trial that is no longer the
    best, as more have been made since, is to be done again.
    """
    path = fit.path(setup.work)
    if not path.exists():
        return None
    record = read_json(path)
    if record["trial"] != fit.trial:
        return None
    check_made_with(
        setup, path, record, recipe=setup.recipe(fit), encoder=COLUMNS[fit.column].encoder
    )
    return record


def check_made_with(
    setup: Setup, path: Path, record: dict[str, Any], *, recipe: TaskRecipe, encoder: str
) -> None:
    """Refuse what was made with another recipe, biLM or MiniLM.

    Args:
        setup: as things are now.
        path: the record's, for the message.
        record: of a fit or a study, with its `recipe` and `encoder`.
        recipe: what it would be made with now.
        encoder: as `plan.Column` has it.
    """
    made_with = recipe_from_dict(record["recipe"], str(path))
    if _comparable(made_with) != _comparable(recipe):
        raise ElmoxError(
            f"{path} is of another recipe: continue with that one, or use another --work"
        )
    if digest_in(record) != setup.digest(encoder):
        name = "MiniLM" if encoder == "minilm" else "biLM"
        raise ElmoxError(
            f"{path} is of another {name}: continue with that one (--{encoder}), or use another "
            "--work"
        )


def digest_in(record: dict[str, Any]) -> str | None:
    """Return the digest of a record's encoder, None without one."""
    used = record["encoder"]
    return None if used is None else str(used["digest"])


def recipe_values(recipe: TaskRecipe) -> dict[str, Any]:
    """Return a recipe as values that survive JSON."""
    values: dict[str, Any] = json.loads(json.dumps(recipe.to_dict()))
    return values


def _comparable(recipe: TaskRecipe) -> TaskRecipe:
    """Remove the biLM's name: digests are compared instead."""
    named = "" if recipe.elmo.is_used else recipe.elmo.model
    return replace(recipe, elmo=replace(recipe.elmo, model=named))
