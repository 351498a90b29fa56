"""ELMo vectors as features for scikit-learn.

    features = ElmoVectorizer(layers="top")                          # a row is a sentence
    model = make_pipeline(features, LogisticRegression())
    model.fit(["good", "a bad film"], [1, 0])

    features = ElmoTokenVectorizer()                                 # a row is a word in a sentence
    features.fit_transform(token_rows([["Live", "in", "the", "present"]]))

The estimators hold their parameters and nothing else: the model and the vectors that it has
computed belong to the process (see `shared_models`). So clones, pickles and workers are small, and
the folds of a cross-validation do not encode a text twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import index
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from elmox.errors import ElmoxError, require_at_least
from elmox.inference.layer_choice import LayerChoice, Layers, choose_layers
from elmox.inference.outputs import FloatArray, Pooling
from elmox.inference.similarity import normalize
from elmox.integrations.packages import importing
from elmox.integrations.shared_models import SharedModel, shared_models
from elmox.text.inputs import Text, Texts, checked_tokens, described, text_list

with importing("scikit-learn", "sklearn", "sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

TokenRow: TypeAlias = tuple[Text, int]

CACHE_MEGABYTES = 512


def token_rows(sentences: Iterable[Sequence[str]]) -> list[TokenRow]:
    """Return a row `(tokens, position)` for each token of tokenized sentences, in order."""
    return [(tokens, i) for tokens in sentences for i in range(len(tokens))]


def clear_cache() -> None:
    """Discard the models and vectors that the estimators of this process share."""
    shared_models().clear()


@dataclass(eq=False, repr=False)  # a constructor, from which sklearn knows the parameters
class _ElmoTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]  # sklearn is untyped
    """Parameters and methods of both estimators."""

    model: str | Path | None = None
    _: KW_ONLY
    layers: Layers = "average"
    normalize_embeddings: bool = False
    batch_tokens: int | None = None
    device: str | torch.device | None = None
    dtype: str = "float32"
    cache_megabytes: int = CACHE_MEGABYTES

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters and the rows; there is nothing to learn.

        Args:
            X: rows, as in `transform`.
            y: ignored.
        """
        self._rows(X)
        self._choice(self._shared())
        return self

    @property
    def _n_features_out(self) -> int:
        shared = self._shared()
        return self._choice(shared).num_chosen * shared.elmo.dim

    @abstractmethod
    def _rows(self, X: Any) -> Sequence[Any]:
        """Check the rows and return them as a sequence."""

    def _shared(self) -> SharedModel:
        require_at_least(0, "cache_megabytes", self.cache_megabytes)
        return shared_models().get(self.model, self.device, self.dtype)

    def _choice(self, shared: SharedModel) -> LayerChoice:
        return choose_layers(self.layers, shared.elmo.num_layers, shared.elmo.mixes)

    @property
    def _max_bytes(self) -> int:
        return self.cache_megabytes * 10**6

    def _features(self, vectors: FloatArray, choice: LayerChoice | None) -> FloatArray:
        """Put layers side by side, (n, K, D) -> (n, K * D); with a choice, (n, J, D)."""
        if choice is not None:
            layers = torch.from_numpy(vectors).transpose(0, 1)
            vectors = choice.apply(layers).transpose(0, 1).contiguous().numpy()
        if self.normalize_embeddings:
            vectors = normalize(vectors)
        return vectors.reshape(len(vectors), -1)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # text has none; features are float32
        return tags


@dataclass(eq=False, repr=False)
class ElmoVectorizer(_ElmoTransformer):
    """Sentences to one row of features each, as `Elmo.encode` returns them.

    Args:
        model: anything that `Elmo.from_pretrained` loads; None for the bundled English model.
        layers: "average", "top", "all", "mix", "mix:NAME", an index or several; see `Elmo.encode`.
            Several layers are put side by side.
        pooling: "mean", "max" or "weighted"; see `Elmo.encode`.
        normalize_embeddings: scale the vector of each layer to length 1.
        batch_tokens: maximum number of tokens per batch; None for a default of the device.
        device: "cpu", "cuda", ...; a GPU if there is one by default.
        dtype: "float32", "bfloat16", "float16" or "int8".
        cache_megabytes: memory of this process for vectors of texts that were encoded before,
            shared by all estimators with the same model.
    """

    _: KW_ONLY
    pooling: Pooling = "mean"

    def fit(self, X: Texts, y: Any = None) -> Self:
        """Check the parameters and the sentences; there is nothing to learn."""
        self._shared().elmo.check_pooling(self.pooling)
        return super().fit(X, y)

    def transform(self, X: Texts) -> FloatArray:
        """Return (n, K * D) features.

        Args:
            X: n sentences, strings or lists of tokens: a list, an array, a column of a table, or a
                table with one column.
        """
        texts = self._rows(X)
        shared = self._shared()
        choice = self._choice(shared)
        # A mean over tokens and the sum over layers can change places, so the layers are stored
        # and a search over `layers` encodes a text once. A maximum or a rounded sum cannot.
        by_layer = self.pooling != "max" and shared.elmo.dtype not in _HALF
        computed: Layers = "all" if by_layer else self.layers

        def encode(rows: list[int]) -> FloatArray:
            return shared.elmo.encode(
                [texts[row] for row in rows],
                layers=computed,
                pooling=self.pooling,
                batch_tokens=self.batch_tokens,
                show_progress_bar=False,
            )

        kind = ("sentence", self.pooling, _hashable(computed))
        keys = [(*kind, _hashable(text)) for text in texts]
        rows = shared.vectors(keys, encode, self._max_bytes)
        if not rows:
            return np.zeros((0, self._n_features_out), np.float32)
        vectors = np.stack(rows).reshape(len(rows), -1, shared.elmo.dim)
        return self._features(vectors, choice if by_layer else None)

    def _rows(self, X: Texts) -> list[Text]:
        return _checked_texts(_column(X))


class ElmoTokenVectorizer(_ElmoTransformer):
    """Words in their sentences to one row of features each, as `Elmo.encode_tokens` returns them.

    A row is a pair `(sentence, position)`, so that words can be split into folds, filtered and
    shuffled like any other rows; `token_rows` makes the rows of all words. Each sentence is
    encoded once.

    Args:
        model: anything that `Elmo.from_pretrained` loads; None for the bundled English model.
        layers: as in `ElmoVectorizer`.
        normalize_embeddings: scale the vector of each layer to length 1.
        batch_tokens: maximum number of tokens per batch; None for a default of the device.
        device: "cpu", "cuda", ...; a GPU if there is one by default.
        dtype: "float32", "bfloat16", "float16" or "int8".
        cache_megabytes: memory of this process for vectors of sentences that were encoded before.
    """

    def transform(self, X: Iterable[TokenRow]) -> FloatArray:
        """Return (n, K * D) features.

        Args:
            X: n pairs `(sentence, position)`; a sentence is a string, which the model's tokenizer
                splits, or a list of tokens. Also a table or array of two columns.
        """
        pairs = self._rows(X)
        shared = self._shared()
        choice = self._choice(shared)
        by_layer = shared.elmo.dtype not in _HALF
        computed: Layers = "all" if by_layer else self.layers
        texts = [text for text, _ in pairs]

        def encode(rows: list[int]) -> list[FloatArray]:
            vectors = shared.elmo.encode_tokens(
                shared.elmo.tokens_of([texts[row] for row in rows]),
                layers=computed,
                batch_tokens=self.batch_tokens,
                show_progress_bar=False,
            )
            return [each.reshape(-1, *each.shape[-2:]) for each in vectors]  # (K, T, D)

        kind = ("tokens", _hashable(computed))
        keys = [(*kind, _hashable(text)) for text in texts]
        sentences = shared.vectors(keys, encode, self._max_bytes)
        if not sentences:
            return np.zeros((0, self._n_features_out), np.float32)
        for row, ((text, position), vectors) in enumerate(zip(pairs, sentences, strict=True)):
            if not 0 <= position < vectors.shape[1]:
                raise ElmoxError(
                    f"row {row}: position {position} of {described(text)}, which has "
                    f"{vectors.shape[1]} tokens: expected 0 to {vectors.shape[1] - 1}"
                )
        chosen = [v[:, position] for v, (_, position) in zip(sentences, pairs, strict=True)]
        return self._features(np.stack(chosen), choice if by_layer else None)

    def _rows(self, X: Any) -> list[TokenRow]:
        rows = X.to_numpy() if hasattr(X, "columns") else X
        if isinstance(rows, str) or not isinstance(rows, Iterable):
            raise ElmoxError(f"{described(X)}: expected rows of (sentence, position)")
        pairs = []
        for row, pair in enumerate(rows):
            if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
                raise ElmoxError(f"row {row} is {described(pair)}: expected (sentence, position)")
            try:
                pairs.append((pair[0], index(pair[1])))
            except TypeError:
                raise ElmoxError(
                    f"row {row} has the position {described(pair[1])}: expected an integer"
                ) from None
        _checked_texts([text for text, _ in pairs])
        return pairs


_HALF = (torch.float16, torch.bfloat16)


def _hashable(value: Any) -> Any:
    """Return a key for a text or a choice of layers; a list of tokens is not the joined string."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _column(X: Any) -> Texts:
    """Return the only column of a table or of a two-dimensional array; anything else as it is."""
    if hasattr(X, "columns") and len(X.columns) == 1:
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        column: NDArray[Any] = X[:, 0]
        return column.tolist()  # type: ignore[no-any-return]
    return X  # type: ignore[no-any-return]


def _checked_texts(X: Texts) -> list[Text]:
    """Return the sentences as a list, each checked while its row number is known."""
    if isinstance(X, str):
        raise ElmoxError(f"{described(X)}: expected several sentences, such as a list of strings")
    texts = text_list(X)
    return [t if isinstance(t, str) else checked_tokens(row, t) for row, t in enumerate(texts)]
