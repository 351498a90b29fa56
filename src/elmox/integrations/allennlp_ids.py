"""AllenNLP's padded tensors of character ids as the ragged batches that a biLM reads.

Shapes: B sentences of T tokens at most, W character slots, n tokens in all, N with the boundaries,
U distinct words. Ids are those of `text/chars.py`; a token of W zeros is padding.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.text.chars import END_WORD_ID, WORD_PADDING_ID, Spelling, spell_bytes

Int16 = NDArray[np.int16]
Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Spell tokenized sentences: (B, T, 50) int64 on the CPU, zeros at padding, no boundaries.

    As in AllenNLP, a string in place of a list of tokens is a list of its characters.
    """
    words = list(chain.from_iterable(batch))
    for word in words:
        if not isinstance(word, str):
            raise ElmoxError(
                f"token {word!r} is a {type(word).__name__}: a sentence is a list of strings"
            )
    index = {word: number for number, word in enumerate(dict.fromkeys(words))}
    spelled = spell_bytes(list(index)).ids
    lengths = np.fromiter(map(len, batch), dtype=np.int64, count=len(batch))
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.zeros((*mask.shape, spelled.shape[1]), dtype=np.int64)
    ids[mask] = spelled[[index[word] for word in words]] if words else 0
    return torch.from_numpy(ids)


def character_ids(inputs: Tensor | None) -> Int16:
    """Check character ids and copy them to the CPU: (..., T, W)."""
    if inputs is None or inputs.dim() < 3 or inputs.is_floating_point():
        kind = None if inputs is None else f"{tuple(inputs.shape)} {inputs.dtype}"
        raise ElmoxError(
            f"inputs: {kind}, expected integers of shape (..., tokens, 50), as of batch_to_ids"
        )
    ids = inputs.numpy(force=True)
    if ids.size and not 0 <= ids.min() <= ids.max() <= WORD_PADDING_ID:
        raise ElmoxError(
            f"inputs: ids from {ids.min()} to {ids.max()}, expected 0 to {WORD_PADDING_ID}"
        )
    return ids.astype(np.int16)


def token_counts(mask: Mask) -> Int64:
    """Return the number of tokens per sentence, (B,), of a mask (..., T) padded on the right."""
    counts: Int64 = mask.sum(-1)
    if not counts.size:
        raise ElmoxError(f"inputs: no sentence, the shape is {mask.shape}: expected at least one")
    gaps = mask != (np.arange(mask.shape[-1]) < counts[..., None])
    if gaps.any():
        row = int(np.flatnonzero(gaps.any(-1))[0])
        raise ElmoxError(f"inputs: padding before a token in sentence {row}: pad on the right")
    return counts.reshape(-1)


def distinct_words(ids: Int16) -> tuple[Int16, Int64]:
    """(n, W) -> the distinct rows (U, W), and the index of every row among them, (n,)."""
    whole_rows = np.dtype((np.void, ids.shape[1] * ids.itemsize))
    keys = np.ascontiguousarray(ids).view(whole_rows).ravel()
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return ids[first], index


def fit_slots(ids: Int16, num_slots: int) -> Spelling:
    """Convert words spelled in W slots, (U, W), to the `num_slots` slots of a model."""
    missing = num_slots - ids.shape[1]
    if missing > 0:
        ids = np.pad(ids, ((0, 0), (0, missing)), constant_values=WORD_PADDING_ID)
    elif missing < 0:
        too_long = (ids[:, num_slots:] != WORD_PADDING_ID).any(1)
        ids = ids[:, :num_slots].copy()
        ids[too_long, -1] = END_WORD_ID
    used = ids != WORD_PADDING_ID
    return Spelling(ids, num_slots - used[:, ::-1].argmax(1))


def not_boundary(lengths: Int64) -> Mask:
    """Return a mask (N,) of the words of sentences of these lengths, boundaries counted."""
    ends = np.cumsum(lengths)
    inside = np.ones(lengths.sum(), dtype=bool)
    inside[ends - lengths] = False
    inside[ends - 1] = False
    return inside


def bounded(tokens: Int64, lengths: Int64, begin: int, end: int) -> Int64:
    """Insert the boundaries of every sentence: (n,) -> (N,)."""
    index = np.full(lengths.sum(), end)
    index[np.cumsum(lengths) - lengths] = begin
    index[not_boundary(lengths)] = tokens
    return index
