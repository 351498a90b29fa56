"""A weighted pooling from unlabeled text; see `model/weighted_pooling.py`."""

import math
from collections.abc import Sequence

import torch

from elmox.errors import Argument, ArgumentError, ElmoxError, require_at_least
from elmox.inference.encode import BatchOptions
from elmox.inference.text_encoder import TextEncoder
from elmox.model.weighted_pooling import WeightedPooling, fit_directions, word_weights

SMOOTHING = 1e-3
NUM_DIRECTIONS = 1

_SMALLEST = 1e-4  # of what all sentences share; alike sentences differ by rounding alone


def fit_weighted_pooling(
    encoder: TextEncoder,
    sentences: Sequence[Sequence[str]],
    smoothing: float,
    num_directions: int,
    options: BatchOptions,
) -> WeightedPooling:
    """Return a pooling with the word counts and the common directions of some sentences.

    Args:
        encoder: the model; its own pooling plays no part.
        sentences: tokenized sentences; empty ones are left out.
        smoothing: see `word_weights`.
        num_directions: number of common directions to remove.
        options: sizes of batches.
    """
    if not (math.isfinite(smoothing) and smoothing > 0):
        raise ArgumentError("{}: expected a number above 0", Argument("smoothing", smoothing))
    require_at_least(0, "num_directions", num_directions)
    if num_directions >= encoder.dim:
        raise ArgumentError(
            "{}: expected fewer than the {} numbers of a vector",
            Argument("num_directions", num_directions),
            encoder.dim,
        )
    texts = [sentence for sentence in sentences if len(sentence)]
    if len(texts) < num_directions + 2:
        raise ElmoxError(
            f"fit_pooling: {len(texts)} sentences with words given, expected at least "
            f"{num_directions + 2}, better some thousands"
        )
    weights = word_weights(texts, smoothing)
    plain = WeightedPooling.of_weights(weights, encoder.num_layers, encoder.dim)
    vectors = torch.from_numpy(encoder.weighted_vectors(texts, plain, options))
    pooling = fit_directions(weights, vectors, num_directions)
    if not (pooling.scales > _SMALLEST * pooling.means.norm(dim=-1)).all():
        raise ElmoxError(
            "fit_pooling: the sentences are too much alike: once what they share is removed, "
            "nothing is left in a layer; give more text"
        )
    return pooling
