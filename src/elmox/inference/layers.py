"""All layers of a batch of sentences, to be mixed by a network: with gradients or without."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.inference.finite import can_overflow, require_finite
from elmox.inference.layer_choice import choose_layers
from elmox.inference.runner import RaggedVectors, Reader
from elmox.io.transfer import to_device
from elmox.kernels.torch_modes import autocast_off
from elmox.model.state import LstmState
from elmox.text.batches import index_sentences


def read_layers(
    reader: Reader, sentences: Sequence[Sequence[str]], state: LstmState, with_gradients: bool
) -> RaggedVectors:
    """Return all layers of tokenized sentences, (L+1, N, D).

    They are computed in the precision of the weights, inside autocast, too.

    Args:
        reader: the biLM.
        sentences: B tokenized sentences, without boundaries; there may be none.
        state: start state of the B rows.
        with_gradients: let gradients reach every weight; False takes the fast path.
    """
    config = reader.bilm.config
    if not sentences:
        no_tokens = torch.zeros(config.num_layers, 0, config.dim, device=reader.bilm.device)
        return RaggedVectors(no_tokens, np.zeros(0, np.int64))
    if not with_gradients:
        ragged, _ = reader.read(sentences, state, choose_layers("all", config.num_layers, {}))
        if can_overflow(ragged.values.dtype):
            require_finite(ragged.values.isfinite().all(), "vectors", ragged.values.dtype)
        return ragged
    batch = index_sentences(sentences, reader.indexer.begin, reader.indexer.end)
    with autocast_off(reader.bilm.device):
        vectors = reader.bilm.token_encoder(reader.indexer(batch.words))
        index = to_device(batch.index, vectors.device)
        # Not vectors[index]: threads would sum its gradient in any order, and no run could be
        # repeated.
        layers = reader.bilm.learn(F.embedding(index, vectors), batch.lengths, state)
    return RaggedVectors(layers, batch.lengths)


def pad_sentences(
    values: Tensor,
    lengths: NDArray[np.int64],
    *,
    keep_boundaries: bool = False,
    min_steps: int = 0,
) -> tuple[Tensor, Tensor]:
    """Pad the sentences of a ragged batch to rows of equal length.

    Args:
        values: (K, N, D), sentence after sentence.
        lengths: (B,) tokens of each sentence, boundaries counted.
        keep_boundaries: keep the vectors of the two boundaries of each sentence.
        min_steps: T if all sentences are shorter.

    Returns:
        (K, B, T, D), zero at padding; and a mask (B, T), true at tokens.
    """
    cut = 0 if keep_boundaries else 1
    starts, num_kept = np.cumsum(lengths) - lengths + cut, lengths - 2 * cut
    num_steps = int(num_kept.max(initial=min_steps))
    mask = np.arange(num_steps) < num_kept[:, None]
    rows, steps = mask.nonzero()
    source, row, step = to_device(np.stack([starts[rows] + steps, rows, steps]), values.device)
    padded = values.new_zeros(len(values), len(lengths), num_steps, values.shape[-1])
    # Every token is read and written once: the backward pass has nothing to sum.
    padded[:, row, step] = values[:, source]
    return padded, to_device(mask, values.device)
