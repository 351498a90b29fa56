"""The results of fits: scores of each seed, their mean and deviation."""

import statistics
from dataclasses import dataclass

from elmox.tasks.metrics.tally import format_score


@dataclass(frozen=True, repr=False)
class SeedResult:
    """The result of one fit.

    Attributes:
        seed: the seed.
        epochs: the best epoch.
        dev: scores on the dev data, of that epoch.
        test: scores on the test data; None without any.
        seconds: duration of the fit.
        model: directory of the fitted model.
    """

    seed: int
    epochs: int
    dev: dict[str, float]
    test: dict[str, float] | None
    seconds: float
    model: str

    def __repr__(self) -> str:
        parts = {"dev": self.dev} | ({} if self.test is None else {"test": self.test})
        scores = (
            f"{part} {name} {format_score(value)}"
            for part, by_name in parts.items()
            for name, value in by_name.items()
        )
        return f"SeedResult(seed {self.seed}: {', '.join(scores)}, model={self.model!r})"


@dataclass(frozen=True, repr=False)
class Results:
    """The results of the fits of several seeds.

    Attributes:
        task: name of the task.
        metric: the score that selects the best epoch, and the best seed.
        seeds: a result per seed.
        mean, deviation: of the metric over seeds, by part: `dev`, and `test` if there is one.
    """

    task: str
    metric: str
    seeds: list[SeedResult]
    mean: dict[str, float]
    deviation: dict[str, float]

    @classmethod
    def of(cls, task: str, metric: str, seeds: list[SeedResult]) -> "Results":
        """Compute mean and standard deviation of the metric."""
        parts = {"dev": [result.dev[metric] for result in seeds]}
        tests = [result.test[metric] for result in seeds if result.test is not None]
        if tests:
            parts["test"] = tests
        mean = {part: statistics.fmean(values) for part, values in parts.items()}
        deviation = {
            part: statistics.stdev(values) if len(values) > 1 else 0.0
            for part, values in parts.items()
        }
        return cls(task, metric, seeds, mean, deviation)

    @property
    def best(self) -> SeedResult:
        """The seed with the best score on the dev data."""
        return max(self.seeds, key=lambda result: result.dev[self.metric])

    @property
    def model(self) -> str:
        """Directory of the best seed's model, for `TaskPredictor.from_pretrained`."""
        return self.best.model

    def summary(self) -> list[str]:
        """Return a line per part, such as `dev f1 91.20 ± 0.31 over 5 seeds`."""
        several = len(self.seeds) > 1
        return [
            f"{part} {self.metric} {mean:.2f}"
            + (f" ± {self.deviation[part]:.2f} over {len(self.seeds)} seeds" if several else "")
            for part, mean in self.mean.items()
        ]

    def __repr__(self) -> str:
        return f"Results({self.task}: {', '.join(self.summary())}, model={self.model!r})"


def seed_summary(metric: str, result: SeedResult) -> str:
    """Return the scores of a seed as one line of progress."""
    test = "" if result.test is None else f", test {metric} {result.test[metric]:.2f}"
    return f"dev {metric} {result.dev[metric]:.2f} (epoch {result.epochs}){test}"
