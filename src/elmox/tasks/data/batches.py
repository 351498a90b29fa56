"""A data set of a task: examples, and their sentences as arrays.

Batches hold examples of like length, so that little is padded; which ones, and in which order, is
drawn anew for every epoch.
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
MOST_WORDS = 2**16  # of a batch that is answered, with padding: a bound on memory


def distinct_sentences(task: Task[Any, Any], examples: Sequence[Any]) -> list[tuple[str, ...]]:
    """The sentences of examples, each once, in the order in which they come.

    Many questions are asked about one text, and a text's layers are the same every time.
    """
    return list(dict.fromkeys(tuple(own) for one in examples for own in task.sentences(one)))


class TaskData:
    """Labeled examples, ready for a model.

    Attributes:
        examples: as the task's reader gave them.
    """

    def __init__(
        self,
        model: TaskModel,
        examples: Sequence[Any],
        layers: StoredLayers | None,
        chosen: NDArray[np.int64] | None = None,
    ) -> None:
        """Look the words up.

        Args:
            model: that reads them.
            examples: all of them.
            layers: an entry for each of their `distinct_sentences`.
            chosen: places of the examples to be used; None for all.
        """
        self.examples = examples
        distinct = distinct_sentences(model.task, examples)
        places = {sentence: place for place, sentence in enumerate(distinct)}
        self._sentences = [
            [places[tuple(own)] for own in model.task.sentences(example)] for example in examples
        ]
        self._chosen = np.arange(len(examples)) if chosen is None else chosen
        used = {i for example in self._chosen for i in self._sentences[example]}
        self._texts = Texts(distinct, model.words, layers, np.array(sorted(used), np.int64))
        self._sizes = np.array(
            [max((int(self._texts.lengths[i]) for i in own), default=0) for own in self._sentences]
        )

    def digest(self) -> str:
        """Of all examples that are used, to tell these from others."""
        found = hashlib.blake2b(digest_size=16)
        for place in self._chosen:
            found.update(repr(self.examples[place]).encode("utf-8", "surrogatepass"))
        return found.hexdigest()

    def batch(self, chosen: NDArray[np.int64], device: torch.device) -> tuple[TextBatch, list[Any]]:
        """The chosen examples: all their sentences side by side, and themselves."""
        sentences = [i for example in chosen for i in self._sentences[example]]
        return self._texts.batch(sentences, device), [self.examples[i] for i in chosen]

    def shuffled(self, batch_size: int, least: int, seed: Sequence[int]) -> list[NDArray[np.int64]]:
        """Places of examples, batch by batch, in an order that the seed decides.

        All examples once, or as often as it takes for at least `least` batches.
        """
        chance = np.random.default_rng(seed)
        found: list[NDArray[np.int64]] = []
        while len(found) < least:
            order = chance.permutation(self._chosen)
            batches = []
            for start in range(0, len(order), batch_size * POOL_BATCHES):
                pool = order[start : start + batch_size * POOL_BATCHES]
                pool = pool[np.argsort(self._sizes[pool], kind="stable")]
                batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
            found += [batches[i] for i in chance.permutation(len(batches))]
        return found

    def in_order(self, batch_size: int) -> Iterator[NDArray[np.int64]]:
        """Places of all examples by falling length; fewer at a time where they are long."""
        order = np.argsort(-self._sizes, kind="stable")
        num_sentences = np.array([len(own) for own in self._sentences], np.int64)
        start = 0
        while start < len(order):
            chosen = order[start : start + batch_size]
            longest = max(1, int(self._sizes[chosen[0]]))
            fitting = np.cumsum(num_sentences[chosen]) * longest <= MOST_WORDS
            chosen = chosen[: max(1, int(fitting.sum()))]
            yield chosen
            start += len(chosen)


def answers_to(model: TaskModel, data: TaskData, batch_size: int = 64) -> list[Any]:
    """What a model says about every example, in the order of the data."""
    model.eval()
    found: list[Any] = [None] * len(data.examples)
    with weights_fixed():
        for chosen in data.in_order(batch_size):
            batch, examples = data.batch(chosen, model.device)
            for place, answer in zip(chosen.tolist(), model.answers(batch, examples), strict=True):
                found[place] = answer
    return found
