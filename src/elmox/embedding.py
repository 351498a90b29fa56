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
from torch import Tensor, nn

from elmox.elmo import Elmo
from elmox.model.layer_choice import choose_layers
from elmox.model.reader import RaggedVectors
from elmox.model.scalar_mix import ScalarMix
from elmox.text.batches import index_sentences


@dataclass(frozen=True)
class Mixed:
    """K mixes of a padded batch."""

    mixes: Tensor  # (K, B, T, D), zero at padding
    mask: Tensor  # (B, T), true where there is a token


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

    def forward(self, sentences: Sequence[str | Sequence[str]]) -> Mixed:
        """Mix the layers of a batch of sentences (strings, or lists of tokens)."""
        ragged = self._layers(self.elmo.tokens_of(sentences))
        mixed = self.scalar_mix(ragged.values)  # (K, N, D)
        return _padded(mixed, ragged, self.keep_boundaries)

    def mix_penalty(self, lambda_: float) -> Tensor:
        """lambda * ||w||^2, to add to the task's loss."""
        return self.scalar_mix.penalty(lambda_)

    def _layers(self, sentences: Sequence[Sequence[str]]) -> RaggedVectors:
        """All layers of the batch, (L+1, N, D); with gradients where the biLM is trained."""
        reader = self.elmo.reader
        state = self.elmo.start_state(len(sentences))
        if not (self.trainable and torch.is_grad_enabled()):
            everything = choose_layers("all", self.elmo.num_layers, {})
            return reader.read(sentences, state, everything)[0]
        batch = index_sentences(sentences, reader.indexer.begin, reader.indexer.end)
        vectors = self.bilm.token_encoder(reader.indexer(batch.words))
        index = torch.from_numpy(batch.index).to(vectors.device)
        layers, _ = self.bilm(vectors[index], batch.lengths, state)
        return RaggedVectors(layers, batch.lengths)


def _padded(mixed: Tensor, ragged: RaggedVectors, keep_boundaries: bool) -> Mixed:
    """(K, N, D) sentence after sentence -> (K, B, T, D) with a mask."""
    cut = 0 if keep_boundaries else 1
    ends = np.cumsum(ragged.lengths)
    starts, lengths = ends - ragged.lengths + cut, ragged.lengths - 2 * cut
    steps = np.arange(lengths.max(initial=0))
    mask = steps < lengths[:, None]
    places = np.where(mask, starts[:, None] + steps, 0)
    alive = torch.from_numpy(mask).to(mixed.device)
    padded = mixed[:, torch.from_numpy(places).to(mixed.device)]  # (K, B, T, D)
    return Mixed(padded * alive[..., None], alive)
