"""Functions that turn a batch of token vectors into a vector per sentence, for `BatchEncoder`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.layer_choice import LayerChoice
from elmox.inference.outputs import FloatArray, Output, PlainPooling
from elmox.model.weighted_pooling import WeightedPooling

T = TypeVar("T")
V = TypeVar("V", Tensor, FloatArray)
Rows: TypeAlias = NDArray[np.int64]  # indexes of sentences
Finish: TypeAlias = Callable[[Tensor, Rows], list[T]]  # see `BatchEncoder.encode`


def lengths_of(sentences: Sequence[Sequence[str]], rows: Rows) -> NDArray[np.int64]:
    """Return the numbers of tokens of some sentences."""
    return np.array([len(sentences[row]) for row in rows.tolist()], np.int64)


def plain(
    output: Output[V], sentences: Sequence[Sequence[str]], pooling: PlainPooling
) -> Finish[V]:
    """Return a function for the mean or the maximum over the tokens."""

    def finish(values: Tensor, rows: Rows) -> list[V]:
        vectors = output.split(values, lengths_of(sentences, rows))
        return [output.pool(tokens, pooling) for tokens in vectors]

    return finish


def weighted(
    output: Output[V],
    sentences: Sequence[Sequence[str]],
    pooling: WeightedPooling,
    choice: LayerChoice,
) -> Finish[V]:
    """Return a function for a weighted pooling, to which all layers are given."""

    def finish(values: Tensor, rows: Rows) -> list[V]:
        batch = [sentences[row] for row in rows.tolist()]
        pooled = choice.apply(pooling.pool(values, batch)).to(values.dtype)  # (K, B, D)
        # A sentence is a single vector now; `split` and `pool` give it its kind and shape.
        pooled = pooled[0] if choice.single else pooled
        vectors = output.split(pooled, np.ones(len(batch), np.int64))
        return [output.pool(vector, "mean") for vector in vectors]

    return finish
