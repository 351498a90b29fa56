"""ELMo vectors as columns of Spark tables.

    table.withColumn("vector", sentence_vectors()("text"))         # array<float>
    table.withColumn("vectors", token_vectors()("tokens"))         # array<array<float>>

These are pandas UDFs: Spark sends batches of a column to its Python workers, each of which loads
the model once (see `shared_models`). elmox must be installed on all machines.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from elmox.inference.layer_choice import Layers
from elmox.inference.outputs import FloatArray, Pooling
from elmox.integrations.packages import importing
from elmox.text.inputs import Text

with importing("PySpark", "spark", "pyspark"):
    from pyspark.sql.functions import pandas_udf
with importing("pandas", "spark", "pandas"):
    import pandas as pd

Encode = Callable[[Any, list[Text]], Sequence[Any]]


def sentence_vectors(
    model: str | None = None,
    *,
    layers: Layers = "average",
    pooling: Pooling = "mean",
    normalize_embeddings: bool = False,
    batch_tokens: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    threads: int = 1,
) -> Any:
    """Return a pandas UDF from sentences to one vector each, `array<float>`.

    The sentences are strings or arrays of tokens; the vector of null is null. Several layers are
    put side by side.

    Args:
        model: a name or a path that all machines can read; None for the bundled English model.
        layers: as in `Elmo.encode`.
        pooling: "mean", "max" or "weighted"; see `Elmo.encode`.
        normalize_embeddings: scale every vector to length 1.
        batch_tokens: maximum number of tokens per batch.
        device: of each worker; by default a GPU if there is one.
        dtype: precision of the computation.
        threads: CPU threads of each worker; Spark runs one worker per core.
    """

    def encode(elmo: Any, texts: list[Text]) -> list[FloatArray]:
        vectors = elmo.encode(
            texts,
            layers=layers,
            pooling=pooling,
            normalize_embeddings=normalize_embeddings,
            batch_tokens=batch_tokens,
            show_progress_bar=False,
        )
        return [*vectors.reshape(len(texts), -1)]

    return _udf(encode, "array<float>", (model, device, dtype), threads)


def token_vectors(
    model: str | None = None,
    *,
    layers: Layers = "average",
    normalize_embeddings: bool = False,
    batch_tokens: int | None = None,
    device: str | None = None,
    dtype: str = "float32",
    threads: int = 1,
) -> Any:
    """Return a pandas UDF from sentences to a vector per token, `array<array<float>>`.

    The arguments are those of `sentence_vectors`.
    """

    def encode(elmo: Any, texts: list[Text]) -> list[list[FloatArray]]:
        arrays = elmo.encode_tokens(
            texts,
            layers=layers,
            normalize_embeddings=normalize_embeddings,
            batch_tokens=batch_tokens,
            show_progress_bar=False,
        )
        return [[*_side_by_side(vectors)] for vectors in arrays]

    return _udf(encode, "array<array<float>>", (model, device, dtype), threads)


def _side_by_side(vectors: FloatArray) -> FloatArray:
    """Return (K, T, D) as (T, K * D)."""
    return vectors if vectors.ndim == 2 else np.concatenate([*vectors], axis=-1)


def _udf(
    encode: Encode, return_type: str, loading: tuple[str | None, str | None, str], threads: int
) -> Any:
    def run(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        elmo = _load(loading, threads)
        for batch in batches:
            yield pd.Series(_with_nulls(encode, elmo, batch), index=batch.index, dtype=object)

    return pandas_udf(run, return_type)


def _load(loading: tuple[str | None, str | None, str], threads: int) -> Any:
    """Load the model, unless this Python worker has it already."""
    # Waiting threads must not take the CPU of other workers; read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch

    from elmox.integrations.shared_models import shared_models

    torch.set_num_threads(threads)
    return shared_models().get(*loading).elmo


def _with_nulls(encode: Encode, elmo: Any, batch: "pd.Series") -> list[Any]:
    """Encode the values of a batch that are not null."""
    results: list[Any] = [None] * len(batch)
    is_null = batch.isna()  # None, or NaN in columns of strings
    values = [(i, value) for i, value in enumerate(batch) if not is_null.iloc[i]]
    texts: list[Text] = [value if isinstance(value, str) else [*value] for _, value in values]
    for (i, _), vectors in zip(values, encode(elmo, texts) if texts else [], strict=True):
        results[i] = vectors
    return results
