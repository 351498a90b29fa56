"""The computations that requests ask for, as values: equal ones share a batch.

Each calls one method of the library on the inputs of all requests of a batch. Where the library's
result depends on what else is in the call, requests are kept apart, so that a response is always
what the library returns for the same inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from elmox.elmo import Elmo
from elmox.explore.words import word_vectors
from elmox.inference.language_model import Direction, Prediction, SentenceScore
from elmox.inference.outputs import FloatArray, Pooling
from elmox.tasks.predictor import TaskPredictor

Sentence: TypeAlias = Sequence[str]
LayerKey: TypeAlias = str | int | tuple[int, ...]


@dataclass(frozen=True)
class Encode:
    """A vector per sentence."""

    elmo: Elmo
    layers: LayerKey
    pooling: Pooling
    normalize: bool

    def __call__(self, inputs: Sequence[Sentence]) -> list[FloatArray]:
        """Return (D,) or (K, D) per sentence."""
        vectors = self.elmo.encode(
            inputs,
            layers=self.layers,
            pooling=self.pooling,
            normalize_embeddings=self.normalize,
            show_progress_bar=False,
        )
        return list(vectors)


@dataclass(frozen=True)
class EncodeTokens:
    """A vector per token."""

    elmo: Elmo
    layers: LayerKey
    normalize: bool

    def __call__(self, inputs: Sequence[Sentence]) -> list[FloatArray]:
        """Return (T, D) or (K, T, D) per sentence."""
        return self.elmo.encode_tokens(
            inputs,
            layers=self.layers,
            normalize_embeddings=self.normalize,
            show_progress_bar=False,
        )


@dataclass(frozen=True)
class WordVectors:
    """A vector per word, without context."""

    elmo: Elmo

    def __call__(self, inputs: Sequence[str]) -> list[FloatArray]:
        """Return (P,) per word."""
        return list(word_vectors(self.elmo, inputs))


@dataclass(frozen=True, eq=False)  # never equal: a request is scored by itself
class Score:
    """Log-probabilities of sentences."""

    elmo: Elmo

    def __call__(self, inputs: Sequence[Sentence]) -> list[SentenceScore]:
        """Return a score per sentence."""
        return self.elmo.score(inputs, show_progress_bar=False)


@dataclass(frozen=True, eq=False)
class Predict:
    """The likeliest words at a position of each sentence."""

    elmo: Elmo
    position: int | None
    k: int
    direction: Direction

    def __call__(self, inputs: Sequence[Sentence]) -> list[list[Prediction]]:
        """Return the likeliest words per sentence."""
        options = (self.position, self.k, self.direction)
        return [self.elmo.predict(sentence, *options) for sentence in inputs]


@dataclass(frozen=True, eq=False)
class Tag:
    """Predictions of a task model."""

    tagger: TaskPredictor

    def __call__(self, inputs: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """Return the predictions for each input; a text of several sentences has several."""
        return [self.tagger.predict_json(values) for values in inputs]
