"""The fits of the table: which there are to do, and what is kept of each, a JSON file.

WORK/data/       the corpora, split
WORK/cache/      layers of biLM and MiniLM
WORK/fits/       the fits themselves, which go on where they were interrupted
WORK/results/TASK/COLUMN/trial-K.json   a setting that was tried, with seed 0: dev scores
WORK/results/TASK/COLUMN/seed-S.json    the chosen setting: test scores and counts as well
WORK/ablations/TASK/STUDY.json          as `elmox ablate` writes it
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from task_data import DATA, Files, corpus_files
from task_plan import COLUMNS, RECIPES, TASKS, recipe_for

from elmox.config import BUNDLED
from elmox.errors import ElmoxError
from elmox.files import read_json
from elmox.tasks.recipe import TaskRecipe


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
        """For people and log files."""
        return f"{self.task}-{self.column}-{self._what}"

    @property
    def cost(self) -> float:
        """Roughly, in minutes."""
        is_fitted = self.tested and self.seed == 0  # by its trial; only the test is left
        return 0.0 if is_fitted else TASKS[self.task].cost

    def path(self, work: Path) -> Path:
        """Of its result."""
        return work / "results" / self.task / self.column / f"{self._what}.json"


@dataclass(frozen=True)
class Setup:
    """Where things are, and how they are run.

    Attributes:
        work: the folder of all that is made.
        data: the published corpora.
        recipes: the tasks' recipes.
        elmo: the biLM.
        minilm: MiniLM's folder; None for that of the installed package.
        device: cpu, cuda; a GPU if there is one by default.
        changes: of all recipes, as `--set` has them.
        beside: fits that run at the same time, for the record: they share a machine.
    """

    work: Path
    data: Path = DATA
    recipes: Path = RECIPES
    elmo: str = BUNDLED
    minilm: Path | None = None
    device: str | None = None
    changes: tuple[str, ...] = ()
    beside: int = 1

    def files(self, task: str) -> Files:
        """Of a task's corpus."""
        return corpus_files(TASKS[task].corpus, self.data, self.work / "data")

    def recipe(self, fit: Fit) -> TaskRecipe:
        """Of a fit."""
        task = TASKS[fit.task]
        return recipe_for(
            task,
            COLUMNS[fit.column],
            task.trials[fit.trial],
            fit.seed,
            elmo=self.elmo,
            recipes=self.recipes,
            changes=self.changes,
        )


def pending(
    setup: Setup,
    tasks: Sequence[str],
    columns: Sequence[str],
    *,
    num_trials: int,
    num_seeds: int,
) -> list[Fit]:
    """Fits that can be done now: trials, and seeds of settings that have been chosen."""
    found: list[Fit] = []
    for task in tasks:
        for column in TASKS[task].columns:
            if column.name not in columns:
                continue
            trials = [Fit(task, column.name, k) for k in range(len(TASKS[task].trials))]
            records = {fit: read_record(setup, fit) for fit in trials[:num_trials]}
            missing = [fit for fit, own in records.items() if own is None]
            if not missing:
                chosen = best_trial([own for own in records.values() if own is not None])
                seeds = [Fit(task, column.name, chosen, s, True) for s in range(num_seeds)]
                missing = [fit for fit in seeds if read_record(setup, fit) is None]
            found += missing
    return found


def best_trial(records: Sequence[dict[str, Any]]) -> int:
    """The number of the trial with the best score on the dev data."""
    best = max(records, key=lambda own: float(own["dev"][own["metric"]]))
    return int(best["trial"])


def read_record(setup: Setup, fit: Fit) -> dict[str, Any] | None:
    """The result of a fit; None where there is none yet.

    One of another recipe is refused. A tested one of a trial that is no longer the best, as more
    have been made since, is to be done again.
    """
    path = fit.path(setup.work)
    if not path.exists():
        return None
    record = read_json(path)
    if record["trial"] != fit.trial:
        return None
    if _comparable(record["recipe"]) != _comparable(recipe_values(setup.recipe(fit))):
        raise ElmoxError(
            f"{path} is of another recipe: go on with that one, or take another --work"
        )
    return record


def recipe_values(recipe: TaskRecipe) -> dict[str, Any]:
    """As JSON gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(recipe.to_dict()))
    return found


def _comparable(recipe: dict[str, Any]) -> dict[str, Any]:
    """Without the biLM's name: it may be the same one in another place."""
    return {**recipe, "elmo": {k: v for k, v in recipe["elmo"].items() if k != "model"}}
