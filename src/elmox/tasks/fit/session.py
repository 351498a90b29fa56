"""From files to fitted models, for one seed or several; `api.py` has the function for users."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.device import resolve_device
from elmox.io.files import atomic_write, to_json, writing
from elmox.io.locks import alone_in
from elmox.io.memory import memory_explained
from elmox.io.progress import Log
from elmox.tasks.data.batches import TaskData, distinct_sentences, predict_all
from elmox.tasks.data.texts import Words, frequent_words
from elmox.tasks.data.word_vectors import WordVectors, read_word_vectors
from elmox.tasks.fit.finetuned import trainable_copy
from elmox.tasks.fit.layer_batches import StoredLayers
from elmox.tasks.fit.layers import layers_path, size_of, stored_layers
from elmox.tasks.fit.loop import fit
from elmox.tasks.fit.results import Results, SeedResult, seed_summary
from elmox.tasks.model import MODEL, ElmoUsed, ModelDescription, TaskModel, read_model
from elmox.tasks.nn.embedder import ElmoShape
from elmox.tasks.recipe import NUM_SEEDS, ElmoRecipe, TaskRecipe, WordsRecipe
from elmox.tasks.registry import find_task

SHARE_SEED = 0  # the same for all fits, so that a smaller share is part of a larger one


class TaskSession:
    """A task's files, read once for any number of fits.

    Attributes:
        task: the task that is fitted.
    """

    def __init__(
        self,
        name: str,
        train: Path,
        dev: Path,
        test: Path | None = None,
        *,
        head: Mapping[str, Any] | None = None,
        device: str | None = None,
        cache: Path,
        log: Log = lambda message: None,
        show_progress_bar: bool = False,
    ) -> None:
        """Read the files.

        Args:
            name: of the task.
            train, dev, test: labeled files for the task's reader. The test file is scored once, by
                the model of the best epoch.
            head: the recipes' `[head]`, as far as it determines how files are read.
            device: `cpu`, `cuda`; by default a GPU if there is one.
            cache: directory for ELMo's layers.
            log: called with lines of progress.
            show_progress_bar: show one on stderr while layers are computed.
        """
        self.task = find_task(name)
        self._device = resolve_device(device)
        settings = self.task.parse_settings(head or {})
        files = {"train": train, "dev": dev} | ({} if test is None else {"test": test})
        self._examples = {part: self.task.read(path, settings) for part, path in files.items()}
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
            recipe: the recipe.
            out: a directory: `seed-N/` for each seed, and `results.json` with the seeds of the
                latest call. An interrupted fit in it is continued, a finished one is not repeated.
            num_seeds: number of seeds, from the recipe's seed on.
            share: of the training data, at least one example.

        Returns:
            The results of these seeds.
        """
        self._check(recipe, out, num_seeds)
        task, recipe = self.task, _with_absolute_path(recipe)
        chosen: NDArray[np.int64] | None = self._chosen(share)
        train = [self._examples["train"][index] for index in self._chosen(share)]
        make = self._maker(recipe, train)
        make(recipe.fit.seed)  # raises what is wrong with a recipe before layers are computed
        parts, settings = dict(self._examples), task.parse_settings(recipe.head)
        learned = task.training_examples(train, settings, self._log)
        if learned is not train:
            parts["train"], chosen = list(learned), None
        for part, examples in parts.items():
            if part != "train":
                task.check_scorable(examples, settings, f"the {part} data")
        with writing(out, resumable=True):
            out.mkdir(parents=True, exist_ok=True)
        layers = {
            part: self._part_layers(recipe.elmo, part, examples) for part, examples in parts.items()
        }
        results = []
        for seed in range(recipe.fit.seed, recipe.fit.seed + num_seeds):
            model = make(seed)
            data = {
                part: TaskData(model, examples, layers[part], chosen if part == "train" else None)
                for part, examples in parts.items()
            }
            results.append(self._fit_seed(model, data, out / f"seed-{seed}"))
            self._log(f"seed {seed}: {seed_summary(task.metric, results[-1])}")
            if not results[-1].dev[task.metric]:
                self._log(
                    f"seed {seed}: {task.metric} stayed at 0, so no best epoch was selected: check "
                    "the dev labels, or try another fit.lr"
                )
        summary = Results.of(task.name, task.metric, results)
        with atomic_write(out / "results.json") as temporary:
            temporary.write_bytes(to_json(asdict(summary)))
        return summary

    def predict(self, model: Path, examples: Sequence[Any]) -> list[Any]:
        """Return the predictions of a model that was fitted here; layers are cached as in `fit`.

        Args:
            model: its directory.
            examples: as the task's reader returns them.
        """
        fitted = read_model(model).to(self._device)
        elmo = fitted.description.recipe.elmo
        layers = self._part_layers(elmo, "other examples", examples)
        return predict_all(fitted, TaskData(fitted, examples, layers))

    def num_examples(self, share: float = 1.0) -> int:
        """Return the number of examples in a share of the training file: at least one."""
        if not 0 < share <= 1:
            raise ElmoxError(f"a share of {share}: expected more than 0 and at most 1")
        return max(1, round(share * len(self._examples["train"])))

    def _check(self, recipe: TaskRecipe, out: Path, num_seeds: int) -> None:
        if num_seeds < 1:
            raise ArgumentError("{} is {}, expected at least 1", Argument("seeds"), num_seeds)
        if recipe.fit.seed + num_seeds > NUM_SEEDS:
            raise ElmoxError(
                f"{num_seeds} seeds from fit.seed {recipe.fit.seed} on: expected all of them below "
                f"{NUM_SEEDS}, give a lower fit.seed"
            )
        if out.exists() and not out.is_dir():
            raise ElmoxError(f"{out} is a file, expected a directory to fit in: choose another")

    def _fit_seed(self, model: TaskModel, data: dict[str, TaskData], out: Path) -> SeedResult:
        out.mkdir(parents=True, exist_ok=True)
        with alone_in(out, "fitting in"):
            best, progress = fit(model, data["train"], data["dev"], out, log=self._log)
        test = None
        if "test" in data:
            test = self.task.score(data["test"].examples, predict_all(best, data["test"]))
        return SeedResult(
            seed=model.description.recipe.fit.seed,
            epochs=progress.best_epoch,
            dev=progress.best,
            test=test,
            seconds=progress.seconds,
            model=str(out / MODEL),
        )

    def _chosen(self, share: float) -> NDArray[np.int64]:
        """Return the indices of a share of the training examples, in ascending order."""
        number = self.num_examples(share)
        order = np.random.default_rng(SHARE_SEED).permutation(len(self._examples["train"]))
        return np.sort(order[:number])

    def _maker(self, recipe: TaskRecipe, train: Sequence[Any]) -> Callable[[int], TaskModel]:
        """Return a function that makes the model of a seed, with fresh weights."""
        sentences = (sentence for example in train for sentence in self.task.sentences(example))
        learned = frequent_words(sentences, recipe.words.min_count)
        static = _static_vectors(recipe.words)
        words = Words(learned, static.words)
        static_dim = static.vectors.shape[1]
        vectors = torch.from_numpy(static.vectors) if static_dim else None
        head = asdict(self.task.configure(train, self.task.parse_settings(recipe.head)))
        used = self._used(recipe.elmo) if recipe.elmo.is_used else None

        def make(seed: int) -> TaskModel:
            seeded = recipe.with_seed(seed)
            description = ModelDescription(self.task.name, seeded, head, used, static_dim)
            finetune = recipe.elmo.finetune
            elmo = trainable_copy(self._model(recipe.elmo.model)) if finetune else None
            torch.manual_seed(seed)
            with memory_explained("lower the sizes in the recipe's [head] and [words]"):
                return TaskModel(description, words, vectors, elmo).to(self._device)

        return make

    def _model(self, name: str) -> Elmo:
        if name not in self._models:
            self._models[name] = Elmo.from_pretrained(name, device=str(self._device))
        return self._models[name]

    def _used(self, recipe: ElmoRecipe) -> ElmoUsed:
        """Return the shape and digest of a recipe's model."""
        elmo = self._model(recipe.model)
        return ElmoUsed(ElmoShape(elmo.num_layers, elmo.dim), elmo.digest())

    def _part_layers(
        self, recipe: ElmoRecipe, part: str, examples: Sequence[Any]
    ) -> StoredLayers | None:
        """Return ELMo's layers of a file's examples, from the cache if they are there.

        None if no ELMo is used, or if it is fine-tuned.
        """
        if not recipe.is_frozen:
            return None
        elmo = self._model(recipe.model)
        sentences = distinct_sentences(self.task, examples)
        path = layers_path(elmo, sentences, self._cache)
        key = part, path
        if key not in self._layers:
            cached = path.exists()
            began = time.monotonic()
            self._layers[key] = stored_layers(elmo, sentences, path, show_progress_bar=self._bar)
            how = "reused" if cached else f"computed in {time.monotonic() - began:.0f} s"
            size = size_of(path) / 1e6
            self._log(f"ELMo's layers of {part}: {how}, {size:,.1f} MB in {path}")
        return self._layers[key]


def _with_absolute_path(recipe: TaskRecipe) -> TaskRecipe:
    """Make the path of a local biLM absolute: a fitted model is used from other directories."""
    model = Path(recipe.elmo.model)
    if not recipe.elmo.is_used or not model.exists():  # none, a name, a hub id
        return recipe
    return replace(recipe, elmo=replace(recipe.elmo, model=str(model.resolve())))


def _static_vectors(recipe: WordsRecipe) -> WordVectors:
    """Read the static vectors of the recipe, if it has any."""
    if not recipe.vectors:
        return WordVectors((), np.zeros((0, 0), np.float32))
    return read_word_vectors(Path(recipe.vectors), recipe.most_vectors)
