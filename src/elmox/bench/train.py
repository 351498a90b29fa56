"""`elmox bench train`: the whole training step of a recipe, from the corpus on disk to the update.

Steps run as in a training run: text is read ahead, and the loss of a step is fetched one step
later. A window is some steps between two moments at which the device is idle.
"""

import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.bench.floor import adaptive_work, lstm_work, product_rate, word_work
from elmox.bench.table import Column, Report, milliseconds, speed
from elmox.bench.timing import wait_for
from elmox.io.memory import memory_explained
from elmox.kernels.paths import like, training_path, uses_table, word_training_path
from elmox.model.lstm import LstmLayer
from elmox.model.softmax import AdaptiveSoftmax
from elmox.training.corpus.corpus import Corpus, open_corpus
from elmox.training.distributed import Processes
from elmox.training.network import PRECISIONS
from elmox.training.recipe import DataRecipe, Recipe
from elmox.training.rows import Batch
from elmox.training.start import starting_point
from elmox.training.trainer import Pending, Trainer

WARM_UP = 5  # kernels are compiled in the first steps and recorded in the next ones


@dataclass(frozen=True)
class Windows:
    """The windows that are timed.

    Attributes:
        num: number of windows; the median counts.
        steps: training steps per window.
    """

    num: int = 5
    steps: int = 20


def bench_train(
    recipe: Recipe, data: Path | None, device: torch.device, windows: Windows
) -> Report:
    """Time some windows of a recipe's steps.

    Args:
        recipe: the recipe to train.
        data: a corpus directory instead of the recipe's.
        device: the device to train on.
        windows: the windows to time.
    """
    if data is not None:
        recipe = replace(recipe, data=DataRecipe(str(data)))
    corpus = open_corpus(Path(recipe.data.dir))
    rate = product_rate(device, PRECISIONS[recipe.train.precision])
    with memory_explained():
        trainer = Trainer(recipe, corpus, starting_point(recipe, corpus), Processes(0, 1, device))
        # A short text is repeated; the learning rate's schedule does not matter here.
        trainer.num_steps = max(trainer.num_steps, WARM_UP + windows.num * windows.steps)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        times, works = _time(trainer, device, windows)
    work = {name: mean(step[name] for step in works) for name in works[0]}
    step, floor = median(times) / windows.steps, rate.seconds(sum(work.values()))
    num_tokens = recipe.train.rows * recipe.train.steps
    row = {
        "rows": recipe.train.rows,
        "steps": recipe.train.steps,
        **speed("tokens", num_tokens, step, floor),
        "slowest_tokens_per_second": num_tokens * windows.steps / max(times),
        "fastest_tokens_per_second": num_tokens * windows.steps / min(times),
        "peak_bytes": _peak_bytes(device),
        "floor_tokens_per_second": num_tokens / floor,
    }
    facts = {
        **_facts(trainer, corpus, device),
        "floor_of": ", ".join(f"{n} {rate.seconds(w) * 1000:.4g} ms" for n, w in work.items()),
        "median_of": f"{windows.num} windows of {windows.steps} steps",
    }
    title = "A whole training step, from the corpus on disk to the update"
    return Report("train", title, device, rate, facts, _columns(device), [row])


def _facts(trainer: Trainer, corpus: Corpus, device: torch.device) -> dict[str, Any]:
    config, recipe = trainer.bilm.config, trainer.recipe
    tensor = like(device, PRECISIONS[recipe.train.precision])
    layer = cast(LstmLayer, trainer.bilm.lstm[0])
    return {
        "network": f"{config.lstm.num_layers} layers of {config.lstm.cell_dim} cells, projection "
        f"{config.lstm.projection_dim}, {sum(p.numel() for p in trainer.bilm.parameters()):,} "
        "parameters",
        "softmax": f"{recipe.softmax.loss}, {corpus.vocab_size:,} words",
        "corpus": f"{recipe.data.dir}, {corpus.train.num_positions:,} positions",
        "path_of_words": word_training_path(tensor),
        "path_of_LSTMs": training_path(tensor, layer.weights()),
    }


def _columns(device: torch.device) -> list[Column]:
    where = "GPU memory" if device.type == "cuda" else "process memory"
    return [
        Column("rows", "rows"),
        Column("steps", "steps"),
        milliseconds("seconds", "step"),
        Column("tokens_per_second", "tokens/s", ",.0f"),
        Column("slowest_tokens_per_second", "slowest window", ",.0f"),
        Column("fastest_tokens_per_second", "fastest window", ",.0f"),
        Column("peak_bytes", f"peak {where}, GB", ".2f", 1e-9),
        milliseconds("floor_seconds", "floor"),
        Column("floor_tokens_per_second", "floor, tokens/s", ",.0f"),
        Column("share", "share of the floor", ".0%"),
    ]


def _time(
    trainer: Trainer, device: torch.device, windows: Windows
) -> tuple[list[float], list[dict[str, float]]]:
    """Return the seconds of each window, and the multiply-adds of its last step."""
    times, works = [], []
    with closing(_updates(trainer)) as updates:
        for _ in range(WARM_UP):
            next(updates)
        for _ in range(windows.num):
            wait_for(device)
            began = time.perf_counter()
            for _ in range(windows.steps):
                batches = next(updates)
            wait_for(device)
            times.append(time.perf_counter() - began)
            works.append(_step_work(trainer, batches))
    return times, works


def _updates(trainer: Trainer) -> Generator[list[Batch], None, None]:
    """Run updates, one per iteration, and yield the text of each."""
    before: Pending | None = None
    for batches in trainer.batches():
        now = trainer.advance(batches)
        if before is not None:
            before.get()
        before = now
        yield batches


def _step_work(trainer: Trainer, batches: list[Batch]) -> dict[str, float]:
    """Return the multiply-adds that a step cannot avoid, forward and backward."""
    config, shape = trainer.bilm.config, trainer.recipe.train
    frozen = shape.freeze == "body"  # then there is no backward pass through it
    by_table = uses_table(next(trainer.bilm.parameters()))
    lstm = shape.rows * shape.steps * config.lstm.num_layers * lstm_work(config.lstm)
    words = 0.0
    for batch in batches:
        spelling = batch.table.spelling
        lengths = np.zeros(len(batch.words), np.int64) if spelling is None else spelling.lengths
        work = word_work(config, lengths)
        words += work.inference(by_table) if frozen else work.training
    targets = np.concatenate([batch.targets.flatten() for batch in batches])
    return {
        "LSTMs": lstm if frozen else 3 * lstm,
        "words": words,
        "softmax": (2 if frozen else 3) * _softmax_work(trainer, targets),
    }


def _softmax_work(trainer: Trainer, targets: NDArray[np.int64]) -> int:
    """Return the forward work of all positions of both directions."""
    softmax, recipe = trainer.softmax, trainer.recipe.softmax
    if isinstance(softmax, AdaptiveSoftmax):
        return adaptive_work(softmax, targets)
    classes = softmax.num_words
    if recipe.loss == "sampled":
        classes = min(classes, recipe.samples)
    return targets.size * classes * trainer.bilm.config.lstm.projection_dim


def _peak_bytes(device: torch.device) -> int | None:
    """Return the peak memory: of a GPU's tensors, otherwise of the process; None on Windows."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
