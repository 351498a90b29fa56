"""Vectors as callers get them: NumPy arrays in float32, or tensors on the model's device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Required, TypeAlias, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.layer_choice import Layers

FloatArray: TypeAlias = NDArray[np.float32]
PlainPooling: TypeAlias = Literal["mean", "max"]
Pooling: TypeAlias = Literal["mean", "max", "weighted"]
V = TypeVar("V")


class EncodeOptions(TypedDict, total=False):
    """Options that `encode` and `encode_tokens` share, whatever they return."""

    layers: Layers
    normalize_embeddings: bool
    batch_size: int | None
    batch_tokens: int | None
    show_progress_bar: bool | None
    device: str | torch.device | None
    num_workers: int


class ArrayOptions(EncodeOptions, total=False):
    """Options that return NumPy arrays, as the defaults do."""

    convert_to_tensor: Literal[False]
    convert_to_numpy: Literal[True]


class TensorOptions(EncodeOptions, total=False):
    """Options that return tensors."""

    convert_to_tensor: Required[Literal[True]]
    convert_to_numpy: bool


class NoArrayOptions(EncodeOptions, total=False):
    """Options that return tensors, in the other of the two ways to choose them."""

    convert_to_tensor: bool
    convert_to_numpy: Required[Literal[False]]


class EitherOptions(EncodeOptions, total=False):
    """Options of which a type checker cannot tell what they return."""

    convert_to_tensor: bool
    convert_to_numpy: bool


@dataclass(frozen=True)
class Output(Generic[V]):
    """One of the two kinds of output.

    Attributes:
        split: (..., N, D) of a batch and the lengths of its sentences -> a value per sentence.
        pool: (..., T, D) -> (..., D); zeros for an empty sentence.
        stack: values of equal shape along a new first axis.
    """

    split: Callable[[Tensor, NDArray[np.int64]], list[V]]
    pool: Callable[[V, PlainPooling], V]
    stack: Callable[[Sequence[V]], V]


def split_tensors(values: Tensor, lengths: NDArray[np.int64]) -> list[Tensor]:
    """Return views of the batch: a GPU would take longer to copy them than to compute them."""
    return list(torch.split_with_sizes(values, lengths.tolist(), dim=-2))


def split_arrays(values: Tensor, lengths: NDArray[np.int64]) -> list[FloatArray]:
    """Return copies, so that a caller who keeps one sentence does not keep its batch."""
    array: FloatArray = values.float().cpu().numpy()
    ends = np.cumsum(lengths)
    slices = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return [array[..., begin:end, :].copy() for begin, end in slices]


def pool_tensor(vectors: Tensor, pooling: PlainPooling) -> Tensor:
    """(..., T, D) -> (..., D); zeros for an empty sentence."""
    if not vectors.shape[-2]:
        return vectors.sum(-2)
    return vectors.amax(-2) if pooling == "max" else vectors.mean(-2)


def pool_array(vectors: FloatArray, pooling: PlainPooling) -> FloatArray:
    """(..., T, D) -> (..., D); zeros for an empty sentence."""
    pooled: FloatArray
    if not vectors.shape[-2]:
        pooled = vectors.sum(-2)
    else:
        pooled = vectors.max(-2) if pooling == "max" else vectors.mean(-2)
    return pooled


ARRAYS = Output(split_arrays, pool_array, lambda vectors: np.stack(vectors))
TENSORS = Output(split_tensors, pool_tensor, lambda vectors: torch.stack(list(vectors)))
