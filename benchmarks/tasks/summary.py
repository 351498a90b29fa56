"""Means, differences and intervals over all fits of the table."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.probes.bootstrap import Interval
from elmox.tasks.fit.ablation import Ablation
from tasks.counts import intervals
from tasks.encoders import Use, check_same_encoders
from tasks.plan import COLUMNS, STUDIED, STUDIES, TASKS, TaskPlan
from tasks.records import Fit, chosen_trial, digest_in
from tasks.studies import setup_path, table_path

WITHOUT, BARE, MIX, ORIGINAL = "none", "layer0", "mix", "original"
OTHERS = ("minilm-mix", "minilm-top")

_KEPT = ("seed", "trial", "settings", "dev", "test", "best_epoch", "epochs", "seconds", "host_mb",
         "gpu_mb", "parallel_fits", "encoder", "command")  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A task in a column: the trials, and the seeds of the chosen one."""

    trials: list[dict[str, Any]]
    seeds: list[dict[str, Any]]

    @property
    def records(self) -> list[dict[str, Any]]:
        """All of them."""
        return [*self.trials, *self.seeds]

    @property
    def chosen(self) -> int | None:
        """The trial that the seeds are of; before there are any, the one that they will be of."""
        return chosen_trial(self.trials, self.seeds) if self.records else None

    @property
    def scores(self) -> list[float]:
        """Test scores by seed."""
        return [float(seed["test"][seed["metric"]]) for seed in self.seeds]

    @property
    def mean(self) -> float | None:
        """Mean of the test scores."""
        return statistics.fmean(self.scores) if self.seeds else None

    @property
    def deviation(self) -> float:
        """Standard deviation of the test scores."""
        return statistics.stdev(self.scores) if len(self.seeds) > 1 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, without the counts of examples."""
        return {
            "mean": self.mean,
            "deviation": self.deviation if self.seeds else None,
            "seeds": [{k: v for k, v in seed.items() if k in _KEPT} for seed in self.seeds],
            "trials": [{k: v for k, v in trial.items() if k in _KEPT} for trial in self.trials],
        }


@dataclass(frozen=True)
class Compared:
    """All columns of a task.

    Attributes:
        plan: the task.
        cells: by the names of columns.
        differences: the mix's score minus that of another column, by its name.
    """

    plan: TaskPlan
    cells: dict[str, Cell]
    differences: dict[str, Interval]

    def mean(self, column: str) -> float | None:
        """Mean test score of a column."""
        return self.cells[column].mean

    @property
    def reduction(self) -> float | None:
        """Relative error reduction by the mix, in percent."""
        return self.reduction_by(MIX)

    def reduction_by(self, column: str) -> float | None:
        """Relative error reduction by a column, in percent."""
        before, after = self.mean(WITHOUT), self.mean(column)
        return None if before is None or after is None else error_reduction(before, after)

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "data": self.plan.data,
            "metric": self.plan.metric,
            "columns": {name: cell.to_dict() for name, cell in self.cells.items()},
            "error_reduction": self.reduction,
            "mix_minus": {
                name: asdict(difference) for name, difference in self.differences.items()
            },
        }


def error_reduction(before: float, after: float) -> float:
    """Return the relative reduction of the error in percent."""
    return 100 * (after - before) / (100 - before) if before < 100 else 0.0


def read_all(work: Path) -> list[Compared]:
    """All tasks, run or not; refused where results, or studies, are of different encoders."""
    tasks = [_read_task(work, plan) for plan in TASKS.values()]
    check_same_encoders(_uses(work, tasks))
    return tasks


def _read_task(work: Path, plan: TaskPlan) -> Compared:
    """Read all columns of a task."""
    cells = {
        column.name: _read_cell(work / "results" / plan.name / column.name)
        for column in plan.columns
    }
    for record in (record_of_cell for cell in cells.values() for record_of_cell in cell.records):
        if record["settings"] != list(plan.trials[record["trial"]]):
            raise ElmoxError(
                f"{work}: trial {record['trial']} of {plan.name} had other settings: continue with "
                "those, or use another --work"
            )
    others = [name for name, cell in cells.items() if name != MIX and cell.seeds]
    differences: dict[str, Interval] = {}
    if others and cells[MIX].seeds:
        systems = {name: [r["counts"] for r in cells[name].seeds] for name in (MIX, *others)}
        estimates = intervals(plan.name, systems, [(MIX, name) for name in others])
        differences = {name: interval for (_, name), interval in estimates.items()}
    return Compared(plan, cells, differences)


def read_studies(work: Path) -> list[Ablation]:
    """Read all finished ablations and curves."""
    paths = _study_files(work, table_path)
    return [validated(Ablation, read_json(path), str(path)) for path in paths]


def mean_reduction(compared: Sequence[Compared]) -> tuple[float | None, list[str]]:
    """The mean over the tasks for which it is known, and their names."""
    known = {task.plan.name: task.reduction for task in compared if task.reduction is not None}
    return (statistics.fmean(known.values()) if known else None), list(known)


def paper_reduction() -> tuple[float, int]:
    """The same mean by the figures of Peters et al. (2018), and the number of their tasks."""
    papers = [task.paper for task in TASKS.values() if task.paper and not task.paper.source]
    known = [error_reduction(paper.without, paper.with_elmo) for paper in papers]
    return statistics.fmean(known), len(known)


def _read_cell(folder: Path) -> Cell:
    """Read the trials and the seeds of the chosen one; other seeds stem from an earlier choice."""
    trials, seeds = (
        sorted((read_json(path) for path in folder.glob(f"{kind}-*.json")), key=itemgetter(kind))
        for kind in ("trial", "seed")
    )
    chosen = Cell(trials, seeds).chosen
    return Cell(trials, [seed for seed in seeds if seed["trial"] == chosen])


def _uses(work: Path, compared: Sequence[Compared]) -> Iterator[Use]:
    """Yield the encoders of all results."""
    for task in compared:
        for name, cell in task.cells.items():
            for record in cell.records:
                fit = Fit(record["task"], name, record["trial"], record["seed"], record["tested"])
                where = str(fit.path(work).relative_to(work))
                yield Use(where, COLUMNS[name].encoder, digest_in(record))
    for path in _study_files(work, setup_path):
        yield Use(str(path.relative_to(work)), "elmo", digest_in(read_json(path)))


def _study_files(work: Path, kind: Callable[[Path, str, str], Path]) -> list[Path]:
    paths = [kind(work, task, study) for task in STUDIED for study in STUDIES]
    return [path for path in paths if path.exists()]
