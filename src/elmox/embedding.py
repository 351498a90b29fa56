"""ELMo as a layer of somebody else's model (Peters et al. 2018, section 3.2-3.3).

    embed = ElmoEmbedding.from_pretrained("weights.hdf5", num_mixes=2, dropout=0.5)
    out = embed([["Live", "in", "the", "present"]])      # out.mixes (2, B, T, D), out.mask (B, T)

The biLM is frozen and only the mixes are learned, which is what the paper does; `trainable=True`
fine-tunes it with the task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmox.elmo import Elmo
from elmox.inference.finite import can_overflow, require_finite
from elmox.inference.layer_choice import choose_layers
from elmox.inference.runner import RaggedVectors
from elmox.io.transfer import to_device
from elmox.kernels.torch_modes import autocast_off, not_compiled
from elmox.model.scalar_mix import ScalarMix
from elmox.text.batches import index_sentences


@dataclass(frozen=True)
class Mixed:
    """K mixes of a padded batch."""

    mixes: Tensor  # (K, B, T, D), zero at padding
    mask: Tensor  # (B, T), true where there is a token


def read_layers(
    elmo: Elmo, sentences: Sequence[Sequence[str]], with_gradients: bool
) -> RaggedVectors:
    """All layers of tokenized sentences, (L+1, N, D), from the start state that the model has.

    Without gradients they are read the fast way. Either way they are computed in the precision of
    the weights, inside autocast, too.
    """
    if not sentences:
        nothing = torch.zeros(elmo.num_layers, 0, elmo.dim, device=elmo.device)
        return RaggedVectors(nothing, np.zeros(0, np.int64))
    reader, state = elmo.reader, elmo.start_state(len(sentences))
    if not with_gradients:
        everything = choose_layers("all", elmo.num_layers, {})
        ragged, _ = reader.read(sentences, state, everything)
        if can_overflow(ragged.values.dtype):
            require_finite(ragged.values.isfinite().all(), "vectors", ragged.values.dtype)
        return ragged
    batch = index_sentences(sentences, reader.indexer.begin, reader.indexer.end)
    with autocast_off(reader.bilm.device):
        vectors = reader.bilm.token_encoder(reader.indexer(batch.words))
        index = to_device(batch.index, vectors.device)
        # Not vectors[index]: threads add up its gradient in any order, and no run could be
        # repeated.
        layers = reader.bilm.learn(F.embedding(index, vectors), batch.lengths, state)
    return RaggedVectors(layers, batch.lengths)


def padded(
    values: Tensor,
    lengths: NDArray[np.int64],
    keep_boundaries: bool = False,
    least_steps: int = 0,
) -> tuple[Tensor, Tensor]:
    """Lay the sentences of a ragged batch side by side.

    Args:
        values: (K, N, D), sentence after sentence.
        lengths: (B,) tokens of each sentence, boundaries counted.
        keep_boundaries: keep the vectors of the boundaries.
        least_steps: T, where all sentences are shorter.

    Returns:
        (K, B, T, D), zero at padding; and (B, T), true where there is a token.
    """
    cut = 0 if keep_boundaries else 1
    starts, own = np.cumsum(lengths) - lengths + cut, lengths - 2 * cut
    num_steps = int(own.max(initial=least_steps))
    mask = np.arange(num_steps) < own[:, None]
    rows, steps = mask.nonzero()
    inner, row, step = to_device(np.stack([starts[rows] + steps, rows, steps]), values.device)
    found = values.new_zeros(len(values), len(lengths), num_steps, values.shape[-1])
    # Every token is read and written once: the way back has nothing to add up.
    found[:, row, step] = values[:, inner]
    return found, to_device(mask, values.device)


class ElmoEmbedding(nn.Module):
    """Sentences to K mixes of ELMo's layers, from one biLM pass.

    Args:
        elmo: the pretrained model. Its start state (zero or warm) is used for every sentence.
        num_mixes: K, one for each place in your model where ELMo goes in.
        dropout: on the mixed vectors.
        trainable: fine-tune the biLM with the task; frozen by default.
        keep_boundaries: keep the vectors of the two boundary tokens of each sentence.
        mix_weights: w to start from; None for zeros, the plain average.
        fixed_mix: do not learn w (gamma is still learned).
        top_only: gamma times the top layer instead of a mix.
        normalize: bring every layer to mean 0 and variance 1 over the batch before mixing.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        elmo: Elmo,
        num_mixes: int = 1,
        dropout: float = 0.0,
        *,
        trainable: bool = False,
        keep_boundaries: bool = False,
        mix_weights: Sequence[float] | None = None,
        fixed_mix: bool = False,
        top_only: bool = False,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.elmo = elmo
        self.keep_boundaries = keep_boundaries
        self.trainable = trainable
        self.bilm = elmo.reader.bilm.requires_grad_(trainable)
        self.scalar_mix = ScalarMix(
            elmo.num_layers,
            num_mixes,
            weights=mix_weights,
            trainable=not fixed_mix,
            top_only=top_only,
            normalize=normalize,
            dropout=dropout,
        ).to(elmo.device)

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        num_mixes: int = 1,
        dropout: float = 0.0,
        **options: Any,
    ) -> "ElmoEmbedding":
        """Load a biLM and put fresh mixes on it.

        `options` are those of this class and of `Elmo.from_pretrained`.
        """
        own = ("trainable", "keep_boundaries", "mix_weights", "fixed_mix", "top_only", "normalize")
        mixing = {name: options.pop(name) for name in own if name in options}
        return cls(Elmo.from_pretrained(path, **options), num_mixes, dropout, **mixing)

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return self.elmo.dim

    @not_compiled
    def forward(self, sentences: Sequence[str | Sequence[str]]) -> Mixed:
        """Mix the layers of a batch of sentences (strings, or lists of tokens)."""
        tokens = self.elmo.tokens_of(sentences)
        ragged = read_layers(self.elmo, tokens, self.trainable and torch.is_grad_enabled())
        mixed = self.scalar_mix(ragged.values)  # (K, N, D)
        return Mixed(*padded(mixed, ragged.lengths, self.keep_boundaries))

    def mix_penalty(self, lambda_: float) -> Tensor:
        """lambda * ||w||^2, to add to the task's loss."""
        return self.scalar_mix.penalty(lambda_)
