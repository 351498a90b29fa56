"""From files to fitted models: what `elmox fit` does, for one seed or several."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.device import resolve_device
from elmox.io.files import atomic_write, to_json, writing
from elmox.io.locks import alone_in
from elmox.io.progress import Log
from elmox.tasks.base import LearnsFromOthers, check_scored
from elmox.tasks.data.batches import TaskData, answers_to, distinct_sentences
from elmox.tasks.data.texts import Words, frequent_words
from elmox.tasks.data.word_vectors import WordVectors, read_word_vectors
from elmox.tasks.fit.finetuned import trainable_copy
from elmox.tasks.fit.layer_batches import StoredLayers
from elmox.tasks.fit.layers import layers_path, size_of, stored_layers
from elmox.tasks.fit.loop import fit
from elmox.tasks.model import MODEL, ElmoUsed, ModelDescription, TaskModel, read_model
from elmox.tasks.nn.embedder import ElmoShape
from elmox.tasks.recipe import NUM_SEEDS, ElmoRecipe, TaskRecipe, WordsRecipe
from elmox.tasks.registry import find_task

SHARE_SEED = 0  # the same examples whatever the seed of a fit: shares are nested


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


class TaskSession:
    """A task's files, read once for any number of fits.

    Attributes:
        task: what is fitted.
    """

    def __init__(
        self,
        name: str,
        train: Path,
        dev: Path,
        test: Path | None = None,
        *,
        device: str | None = None,
        cache: Path,
        log: Log = lambda message: None,
        show_progress_bar: bool = False,
    ) -> None:
        """Read the files.

        Args:
            name: of the task.
            train, dev, test: files that the task's reader reads. The test file is scored once, by
                the model of the best epoch.
            device: cpu, cuda; a GPU if there is one by default.
            cache: the directory where ELMo's layers are kept.
            log: told how it goes, a line at a time.
            show_progress_bar: while layers are computed, on stderr.
        """
        self.task = find_task(name)
        self._device = resolve_device(device)
        files = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
        self._examples = {part: self.task.read(path) for part, path in files.items()}
        for part, path in files.items():
            if not self._examples[part]:
                raise ElmoxError(f"{path} has no examples")
        self._cache, self._log, self._bar = cache, log, show_progress_bar
        self._models: dict[str, Elmo] = {}
        self._layers: dict[tuple[str, Path], StoredLayers] = {}

    def fit(
        self, recipe: TaskRecipe, out: Path, *, num_seeds: int = 1, share: float = 1.0
    ) -> Results:
        """Fit models of several seeds, one after the other.

        Args:
            recipe: how.
            out: a directory: `seed-N/` for each seed, and `results.json`, which tells of the seeds
                that were asked for last. What an interrupted run left there is gone on with, what
                is done is not done again.
            num_seeds: from the recipe's seed on.
            share: of the training data, at least one example.

        Returns:
            What the fits of these seeds came to.
        """
        if num_seeds < 1:
            raise ElmoxError(f"{num_seeds} seeds: expected at least 1")
        if recipe.fit.seed + num_seeds > NUM_SEEDS:
            raise ElmoxError(
                f"{num_seeds} seeds from fit.seed {recipe.fit.seed} on: expected all of them below "
                f"{NUM_SEEDS}, give a lower fit.seed"
            )
        task = self.task
        recipe = _located(recipe)
        places = self._chosen(share)
        chosen: NDArray[np.int64] | None = places
        train = [self._examples["train"][place] for place in places]
        make = self._maker(recipe, train)
        make(recipe.fit.seed)  # what is wrong with a recipe shows before layers are computed
        parts = dict(self._examples)
        if isinstance(task, LearnsFromOthers):
            parts["train"], chosen = task.training_examples(train, recipe.head, self._log), None
        for part, own in parts.items():
            if part != "train":
                check_scored(task, own, recipe.head, f"the {part} data")
        if out.exists() and not out.is_dir():
            raise ElmoxError(f"{out} is a file, expected a directory to fit in: choose another")
        with writing(out, resumable=True):
            out.mkdir(parents=True, exist_ok=True)
        layers = {part: self._part_layers(recipe.elmo, part, own) for part, own in parts.items()}
        results = []
        for seed in range(recipe.fit.seed, recipe.fit.seed + num_seeds):
            model = make(seed)
            data = {
                part: TaskData(model, examples, layers[part], chosen if part == "train" else None)
                for part, examples in parts.items()
            }
            results.append(self._fit_seed(model, data, out / f"seed-{seed}"))
            self._log(f"seed {seed}: {_shown(task.metric, results[-1])}")
            if not results[-1].dev[task.metric]:
                self._log(
                    f"seed {seed}: {task.metric} was never above 0, so nothing could be chosen by "
                    "it: see that the dev data has what is to be found, and try another fit.lr"
                )
        summary = _summary(task.name, task.metric, results)
        with atomic_write(out / "results.json") as temporary:
            temporary.write_bytes(to_json(asdict(summary)))
        return summary

    def answers(self, model: Path, examples: Sequence[Any]) -> list[Any]:
        """What a model that was fitted here says about other examples; their layers are kept too.

        Args:
            model: its directory.
            examples: as the task's reader gives them.
        """
        found = read_model(model).to(self._device)
        elmo = found.description.recipe.elmo
        layers = self._part_layers(elmo, "other examples", examples)
        return answers_to(found, TaskData(found, examples, layers))

    def _fit_seed(self, model: TaskModel, data: dict[str, TaskData], out: Path) -> SeedResult:
        out.mkdir(parents=True, exist_ok=True)
        with alone_in(out, "fitting in"):
            best, progress = fit(model, data["train"], data["dev"], out, log=self._log)
        test = None
        if "test" in data:
            test = self.task.score(data["test"].examples, answers_to(best, data["test"]))
        return SeedResult(
            seed=model.description.recipe.fit.seed,
            epochs=progress.best_epoch,
            dev=progress.best,
            test=test,
            seconds=progress.seconds,
            model=str(out / MODEL),
        )

    def num_examples(self, share: float = 1.0) -> int:
        """How many examples of the training file a share of it is: at least one."""
        if not 0 < share <= 1:
            raise ElmoxError(f"a share of {share}: expected more than 0 and at most 1")
        return max(1, round(share * len(self._examples["train"])))

    def _chosen(self, share: float) -> NDArray[np.int64]:
        """Places of the training examples that are used, in their order."""
        number = self.num_examples(share)
        order = np.random.default_rng(SHARE_SEED).permutation(len(self._examples["train"]))
        return np.sort(order[:number])

    def _maker(self, recipe: TaskRecipe, train: Sequence[Any]) -> Callable[[int], TaskModel]:
        """What makes the model of a seed, with fresh weights."""
        sentences = (sentence for example in train for sentence in self.task.sentences(example))
        learned = frequent_words(sentences, recipe.words.min_count)
        static = _static_vectors(recipe.words)
        words = Words(learned, static.words)
        static_dim = static.vectors.shape[1]
        vectors = torch.from_numpy(static.vectors) if static_dim else None
        head = self.task.describe(train, recipe.head)
        used = self._used(recipe.elmo) if recipe.elmo.is_used else None

        def make(seed: int) -> TaskModel:
            own = recipe.with_seed(seed)
            description = ModelDescription(self.task.name, own, head, used, static_dim)
            learned_too = recipe.elmo.finetune
            elmo = trainable_copy(self._model(recipe.elmo.model)) if learned_too else None
            torch.manual_seed(seed)
            return TaskModel(description, words, vectors, elmo).to(self._device)

        return make

    def _model(self, name: str) -> Elmo:
        if name not in self._models:
            self._models[name] = Elmo.from_pretrained(name, device=str(self._device))
        return self._models[name]

    def _used(self, recipe: ElmoRecipe) -> ElmoUsed:
        """What a recipe's model gives."""
        elmo = self._model(recipe.model)
        return ElmoUsed(ElmoShape(elmo.num_layers, elmo.dim), elmo.digest())

    def _part_layers(
        self, recipe: ElmoRecipe, part: str, examples: Sequence[Any]
    ) -> StoredLayers | None:
        """ELMo's layers of a file's examples; computed where they are not kept yet.

        None where there is no ELMo, or the model reads with its own.
        """
        if not recipe.is_frozen:
            return None
        elmo = self._model(recipe.model)
        sentences = distinct_sentences(self.task, examples)
        path = layers_path(elmo, sentences, self._cache)
        key = part, path
        if key not in self._layers:
            there = path.exists()
            began = time.monotonic()
            self._layers[key] = stored_layers(elmo, sentences, path, show_progress_bar=self._bar)
            how = "reused" if there else f"computed in {time.monotonic() - began:.0f} s"
            size = size_of(path) / 1e6
            self._log(f"ELMo's layers of {part}: {how}, {size:,.1f} MB in {path}")
        return self._layers[key]


def fit_task(
    name: str,
    recipe: TaskRecipe,
    train: Path,
    dev: Path,
    out: Path,
    *,
    test: Path | None = None,
    num_seeds: int = 1,
    **options: Any,
) -> Results:
    """Read files and fit; see `TaskSession`, whose options these are."""
    return TaskSession(name, train, dev, test, **options).fit(recipe, out, num_seeds=num_seeds)


def _located(recipe: TaskRecipe) -> TaskRecipe:
    """With a path that leads to its biLM from anywhere: a fitted model is used elsewhere too."""
    model = Path(recipe.elmo.model)
    if not recipe.elmo.is_used or not model.exists():  # none, a name, a hub id
        return recipe
    return replace(recipe, elmo=replace(recipe.elmo, model=str(model.resolve())))


def _static_vectors(recipe: WordsRecipe) -> WordVectors:
    """Those of the recipe's file; none where it names none."""
    if not recipe.vectors:
        return WordVectors((), np.zeros((0, 0), np.float32))
    return read_word_vectors(Path(recipe.vectors), recipe.most_vectors)


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
