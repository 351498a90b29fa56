"""Cosine similarity of vectors."""

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import ElmoxError

Vectors = TypeVar("Vectors", Tensor, NDArray[np.float32], NDArray[np.floating])

_TINY = 1e-12  # so that the zero vector of an empty sentence has similarity 0


def normalize(vectors: Vectors) -> Vectors:
    """Scale vectors (..., D) to length 1; zeros stay zeros."""
    lengths: Vectors
    if isinstance(vectors, Tensor):
        lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        return vectors / lengths.clamp_min(_TINY)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalized: NDArray[np.floating] = vectors / np.maximum(lengths, _TINY)
    return normalized


def similarity(a: Vectors, b: Vectors) -> Vectors:
    """Return the cosine of every vector of `a` with every vector of `b`, (N, M).

    Args:
        a: (N, D), or (D,) for one vector.
        b: (M, D), or (D,) for one vector; of the same kind as `a`, array or tensor.
    """
    kinds = [next((k for k in (Tensor, np.ndarray) if isinstance(v, k)), None) for v in (a, b)]
    if kinds[0] is None or kinds[0] is not kinds[1]:
        raise ElmoxError(
            f"similarity of {type(a).__name__} and {type(b).__name__}: expected two arrays or two "
            "tensors"
        )
    for vectors in (a, b):
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != a.shape[-1]:
            raise ElmoxError(
                f"similarity of vectors of shapes {tuple(a.shape)} and {tuple(b.shape)}: expected "
                "(N, D) and (M, D)"
            )
    if isinstance(a, Tensor):
        rows, columns = (t if t.ndim == 2 else t[None] for t in (a, b))
        return normalize(rows) @ normalize(columns).T
    return normalize(np.atleast_2d(a)) @ normalize(np.atleast_2d(b)).T
