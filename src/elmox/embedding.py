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

import torch
from torch import Tensor, nn

from elmox.elmo import Elmo
from elmox.inference.layers import pad_sentences, read_layers
from elmox.kernels.torch_modes import not_compiled
from elmox.model.layer_mix import LayerMix, MixLayers, Normalization


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
        layers: "mix", "top" or a layer's index; see `LayerMix`.
        normalize: normalize every layer before mixing, over the "batch" or per "token"; see
            `LayerMix`.
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
        layers: MixLayers = "mix",
        normalize: Normalization | None = None,
    ) -> None:
        super().__init__()
        self.elmo = elmo
        self.keep_boundaries = keep_boundaries
        self.trainable = trainable
        self.bilm = elmo.reader.bilm.requires_grad_(trainable)
        self.scalar_mix = LayerMix(
            elmo.num_layers,
            num_mixes,
            weights=mix_weights,
            trainable=not fixed_mix,
            layers=layers,
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
        own = ("trainable", "keep_boundaries", "mix_weights", "fixed_mix", "layers", "normalize")
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
        state = self.elmo.start_state(len(tokens))
        with_gradients = self.trainable and torch.is_grad_enabled()
        ragged = read_layers(self.elmo.reader, tokens, state, with_gradients)
        mixed = self.scalar_mix(ragged.values)  # (K, N, D)
        return Mixed(*pad_sentences(mixed, ragged.lengths, keep_boundaries=self.keep_boundaries))

    def mix_penalty(self, lambda_: float) -> Tensor:
        """lambda * ||w||^2, to add to the task's loss."""
        return self.scalar_mix.penalty(lambda_)
