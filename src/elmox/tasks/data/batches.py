"""A task's data set: examples, and their sentences as arrays.

Batches hold examples of similar length, so that there is little padding; which ones, and in which
order, is drawn for every epoch.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.kernels.derived import weights_fixed
from elmox.tasks.base import Task
from elmox.tasks.data.texts import TextBatch, Texts
from elmox.tasks.fit.layer_batches import StoredLayers
from elmox.tasks.model import TaskModel

POOL_BATCHES = 50  # batches' worth of examples that are sorted by length together
MAX_WORDS = 2**16  # of a batch to predict, with padding: a bound on memory


def distinct_sentences(task: Task[Any, Any], examples: Sequence[Any]) -> list[tuple[str, ...]]:
    """Return the sentences of examples, each once, in order of appearance.

    Many questions are about the same text, whose layers are the same every time.
    """
    sentences = (sentence for example in examples for sentence in task.sentences(example))
    return list(dict.fromkeys(map(tuple, sentences)))


class TaskData:
    """Labeled examples, ready for a model.

    Attributes:
        examples: as the task's reader returned them.
    """

    def __init__(
        self,
        model: TaskModel,
        examples: Sequence[Any],
        layers: StoredLayers | None,
        chosen: NDArray[np.int64] | None = None,
    ) -> None:
        """Look up the words.

        Args:
            model: the model that reads them.
            examples: all of them.
            layers: an entry for each of their `distinct_sentences`.
            chosen: indices of the examples to use; None for all.
        """
        self.examples = examples
        distinct = distinct_sentences(model.task, examples)
        index = {sentence: number for number, sentence in enumerate(distinct)}
        self._sentences = [
            [index[tuple(sentence)] for sentence in model.task.sentences(example)]
            for example in examples
        ]
        self._chosen = np.arange(len(examples)) if chosen is None else chosen
        used = {i for example in self._chosen for i in self._sentences[example]}
        self._texts = Texts(distinct, model.words, layers, np.array(sorted(used), np.int64))
        lengths = self._texts.lengths
        self._sizes = np.array(
            [max((int(lengths[i]) for i in indices), default=0) for indices in self._sentences]
        )

    def digest(self) -> str:
        """Return a digest of all examples in use, which identifies them."""
        state = hashlib.blake2b(digest_size=16)
        for index in self._chosen:
            state.update(repr(self.examples[index]).encode("utf-8", "surrogatepass"))
        return state.hexdigest()

    def batch(self, chosen: NDArray[np.int64], device: torch.device) -> tuple[TextBatch, list[Any]]:
        """Return the sentences of the chosen examples side by side, and the examples."""
        sentences = [i for example in chosen for i in self._sentences[example]]
        return self._texts.batch(sentences, device), [self.examples[i] for i in chosen]

    def shuffled(self, batch_size: int, least: int, seed: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return indices of examples, batch by batch, in an order that the seed determines.

        All examples once, or as often as needed for at least `least` batches.
        """
        generator = np.random.default_rng(seed)
        shuffled: list[NDArray[np.int64]] = []
        while len(shuffled) < least:
            order = generator.permutation(self._chosen)
            batches = []
            for start in range(0, len(order), batch_size * POOL_BATCHES):
                pool = order[start : start + batch_size * POOL_BATCHES]
                pool = pool[np.argsort(self._sizes[pool], kind="stable")]
                batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
            shuffled += [batches[i] for i in generator.permutation(len(batches))]
        return shuffled

    def in_order(self, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """Yield indices of all examples, the longest first; fewer at a time if they are long."""
        order = np.argsort(-self._sizes, kind="stable")
        num_sentences = np.array([len(indices) for indices in self._sentences], np.int64)
        start = 0
        while start < len(order):
            chosen = order[start : start + batch_size]
            longest = max(1, int(self._sizes[chosen[0]]))
            fitting = np.cumsum(num_sentences[chosen]) * longest <= MAX_WORDS
            chosen = chosen[: max(1, int(fitting.sum()))]
            yield chosen
            start += len(chosen)


def predict_all(model: TaskModel, data: TaskData, batch_size: int = 64) -> list[Any]:
    """Return a model's prediction for every example, in the order of the data."""
    model.eval()
    predictions: list[Any] = [None] * len(data.examples)
    with weights_fixed():
        for chosen in data.in_order(batch_size):
            batch, examples = data.batch(chosen, model.device)
            indices, batch_predictions = chosen.tolist(), model.predict(batch, examples)
            for index, prediction in zip(indices, batch_predictions, strict=True):
                predictions[index] = prediction
    return predictions
