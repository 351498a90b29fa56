"""From files to fitted models: what `elmox fit` does, for one seed or several."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from elmox.bulk.embed import model_digest
from elmox.elmo import Elmo, default_device
from elmox.files import atomic_write, to_json
from elmox.tasks.data import TaskData, answers_to
from elmox.tasks.embedder import ElmoShape
from elmox.tasks.fit import MODEL, fit
from elmox.tasks.layers import layers_path, size_of, stored_layers
from elmox.tasks.model import ElmoUsed, ModelDescription, TaskModel
from elmox.tasks.recipe import TaskRecipe
from elmox.tasks.registry import find_task
from elmox.tasks.texts import Sentence, StoredLayers, known_words

Say = Callable[[str], None]


@dataclass(frozen=True)
class SeedResult:
    """What one fit came to."""

    seed: int
    epochs: int  # until the best
    dev: dict[str, float]
    test: dict[str, float] | None
    seconds: float
    model: str  # its directory


@dataclass(frozen=True)
class Results:
    """What all fits came to.

    Attributes:
        task: its name.
        metric: what counts.
        seeds: one result each.
        mean, deviation: of the metric over seeds, for dev and, where there is one, test.
    """

    task: str
    metric: str
    seeds: list[SeedResult]
    mean: dict[str, float]
    deviation: dict[str, float]

    @property
    def best(self) -> SeedResult:
        """The one with the best score on the dev data."""
        return max(self.seeds, key=lambda own: own.dev[self.metric])


def fit_task(
    name: str,
    recipe: TaskRecipe,
    train: Path,
    dev: Path,
    out: Path,
    *,
    test: Path | None = None,
    num_seeds: int = 1,
    device: str | None = None,
    cache: Path,
    say: Say = lambda message: None,
    show_progress_bar: bool = False,
) -> Results:
    """Fit a task's model, for several seeds one after the other.

    Args:
        name: of the task.
        recipe: how.
        train, dev, test: files that the task's reader reads. The test file is scored once, by the
            model of the best epoch.
        out: a directory: `seed-N/` for each seed, and `results.json`. What an interrupted run left
            there is gone on with.
        num_seeds: from the recipe's seed on.
        device: cpu, cuda; a GPU if there is one by default.
        cache: the directory where ELMo's layers are kept.
        say: told how it goes, a line at a time.
        show_progress_bar: while layers are computed, on stderr.
    """
    task = find_task(name)
    files = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
    examples = {part: task.read(path) for part, path in files.items()}
    where = torch.device(device or default_device())
    elmo = load_elmo(recipe, where)
    layers: dict[str, StoredLayers | None] = dict.fromkeys(files)
    if elmo is not None:
        for part, own in examples.items():
            sentences = [sentence for example in own for sentence in task.sentences(example)]
            layers[part] = _layers(elmo, sentences, cache, part, say, show_progress_bar)
    words = known_words(
        (sentence for example in examples["train"] for sentence in task.sentences(example)),
        recipe.words.min_count,
    )
    head = task.describe(examples["train"], recipe.head)
    results = []
    for seed in range(recipe.fit.seed, recipe.fit.seed + num_seeds):
        description = ModelDescription(name, recipe.with_seed(seed), head, used(elmo))
        torch.manual_seed(seed)
        model = TaskModel(description, words).to(where)
        data = {part: TaskData(model, examples[part], layers[part]) for part in files}
        folder = out / f"seed-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        best, progress = fit(model, data["train"], data["dev"], folder, say=say)
        scores = None
        if test is not None:
            scores = task.score(examples["test"], answers_to(best, data["test"]))
        found = SeedResult(
            seed, progress.best_epoch, progress.best, scores, progress.seconds, str(folder / MODEL)
        )
        results.append(found)
        say(f"seed {seed}: {_shown(task.metric, found)}")
    summary = _summary(task.name, task.metric, results)
    with atomic_write(out / "results.json") as temporary:
        temporary.write_bytes(to_json(asdict(summary)))
    return summary


def load_elmo(recipe: TaskRecipe, device: torch.device) -> Elmo | None:
    """The recipe's biLM, if it wants one."""
    if not recipe.elmo.is_used:
        return None
    return Elmo.from_pretrained(recipe.elmo.model, device=str(device))


def used(elmo: Elmo | None) -> ElmoUsed | None:
    """What a model remembers of its biLM."""
    if elmo is None:
        return None
    return ElmoUsed(ElmoShape(elmo.num_layers, elmo.dim), model_digest(elmo))


def _layers(
    elmo: Elmo, sentences: Sequence[Sentence], cache: Path, part: str, say: Say, bar: bool
) -> StoredLayers:
    path = layers_path(elmo, sentences, cache)
    there = path.exists()
    began = time.monotonic()
    found = stored_layers(elmo, sentences, path, show_progress_bar=bar)
    how = "reused" if there else f"computed in {time.monotonic() - began:.0f} s"
    say(f"ELMo's layers of {part}: {how}, {size_of(path) / 1e6:,.0f} MB in {path}")
    return found


def _summary(name: str, metric: str, results: list[SeedResult]) -> Results:
    parts = {"dev": [own.dev[metric] for own in results]}
    tests = [own.test[metric] for own in results if own.test is not None]
    if tests:
        parts["test"] = tests
    mean = {part: statistics.fmean(values) for part, values in parts.items()}
    deviation = {
        part: statistics.stdev(values) if len(values) > 1 else 0.0 for part, values in parts.items()
    }
    return Results(name, metric, results, mean, deviation)


def _shown(metric: str, found: SeedResult) -> str:
    test = "" if found.test is None else f", test {metric} {found.test[metric]:.2f}"
    return f"dev {metric} {found.dev[metric]:.2f} (epoch {found.epochs}){test}"
