"""AllenNLP's `Elmo` module: padded character ids to mixes of the biLM's layers.

Shapes: T tokens of the longest sentence, n tokens in all, N with the boundaries, U distinct words,
L LSTM layers, P projection, D the width of a vector, K mixes.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from elmox.errors import ElmoxError
from elmox.inference.layer_choice import choose_layers
from elmox.inference.layers import pad_sentences
from elmox.inference.runner import infer_layers
from elmox.integrations.allennlp_ids import (
    Int64,
    Mask,
    bounded,
    character_ids,
    distinct_words,
    fit_slots,
    token_counts,
)
from elmox.integrations.spelled_words import encode_spelling
from elmox.kernels.derived import Derived
from elmox.kernels.torch_modes import autocast_off, not_compiled
from elmox.model.checkpoint import Checkpoint, build_bilm
from elmox.model.layer_mix import LayerMix
from elmox.model.state import CarriedState, LstmState, zero_state
from elmox.pretrained.load import load_checkpoint
from elmox.text.chars import Spelling, spell_bytes

File: TypeAlias = str | Path

_logger = logging.getLogger(__name__)


def load_files(options_file: File | None, weight_file: File | None) -> Checkpoint:
    """Read a model from local files; AllenNLP downloaded them."""
    for name, file in (("options_file", options_file), ("weight_file", weight_file)):
        if isinstance(file, str) and "://" in file:
            raise ElmoxError(f"{name} {file} is a URL: download it and give the local path")
    if weight_file is None:
        raise ElmoxError(
            "weight_file is missing: give local files as options_file and weight_file, nothing is "
            "downloaded"
        )
    return load_checkpoint(weight_file, options=options_file)


@dataclass(frozen=True)
class _Batch:
    """Sentences without boundaries; some may be empty."""

    vectors: Tensor  # (U + 2, P): words, then begin and end of a sentence
    tokens: Int64  # (n,) the word of each token, sentence after sentence
    mask: Mask  # (..., T)


class Elmo(nn.Module):
    """Character ids to K mixes of ELMo's layers, from one biLM pass.

    Args:
        options_file: the options file; None to look for it next to the weights.
        weight_file: AI2's weights.hdf5, or anything else that `elmox.Elmo.from_pretrained` reads.
        num_output_representations: K.
        requires_grad: fine-tune the biLM; it is frozen by default.
        do_layer_norm: bring each layer to mean 0 and variance 1 over the batch before mixing.
        dropout: dropout on the mixed vectors. As any module, this one starts in training mode.
        vocab_to_cache: words whose token vectors are computed once, now. `word_inputs` are indexes
            of this list; index 0 is padding.
        keep_sentence_boundaries: keep the vectors of both boundaries: T + 2 instead of T.
        scalar_mix_parameters: fixed weights before the softmax, for every mix; gamma is then 1.
        module: a biLM of another class in AllenNLP; not supported here.
        stateful: start row i where row i of the last call ended, as AllenNLP did.
    """

    @torch.inference_mode(False)
    def __init__(
        self,
        options_file: File | None,
        weight_file: File | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = True,
    ) -> None:
        super().__init__()
        if module is not None:
            raise ElmoxError(
                "module: a biLM of another class is not supported here: give options_file and "
                "weight_file, or mix its layers with elmox.LayerMix"
            )
        if requires_grad and vocab_to_cache is not None:
            raise ElmoxError(
                "vocab_to_cache stores vectors that requires_grad=True would change: leave one out"
            )
        checkpoint = load_files(options_file, weight_file)
        char_cnn = checkpoint.config.char_cnn
        if char_cnn is None or char_cnn.inventory != "bytes" or checkpoint.config.words is not None:
            raise ElmoxError(
                f"{weight_file} cannot read the byte ids of batch_to_ids: use elmox.ElmoEmbedding"
            )
        self.stateful = stateful
        self._num_slots = char_cnn.max_characters
        self._keep_boundaries = keep_sentence_boundaries
        self.bilm = build_bilm(checkpoint, str(weight_file)).requires_grad_(requires_grad)
        self.scalar_mix = LayerMix(
            checkpoint.config.num_layers,
            num_output_representations,
            weights=scalar_mix_parameters,
            normalize="batch" if do_layer_norm else None,
            dropout=dropout,
        ).requires_grad_(scalar_mix_parameters is None)
        self._vocab = (
            None if vocab_to_cache is None else spell_bytes(list(vocab_to_cache), self._num_slots)
        )
        self._word_vectors: Derived[Tensor] = Derived()
        if self._vocab is not None:
            self._cached_words(self._vocab)
        self._carried = CarriedState(self._fresh)

    def get_output_dim(self) -> int:
        """Return D."""
        return self.bilm.config.dim

    def reset_states(self) -> None:
        """Forget the carried state: every row starts afresh at the next call."""
        self._carried.reset()

    @not_compiled
    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Read a batch.

        Args:
            inputs: character ids (..., T, 50), as `batch_to_ids` returns them; zeros on the right
                are padding.
            word_inputs: (..., T) indexes of `vocab_to_cache`, read instead of `inputs`. If one of
                them is not in the list, `inputs` is read instead.

        Returns:
            `elmo_representations`, K tensors (..., T, D) that are zero at padding, and `mask`,
            (..., T), true at tokens.
        """
        is_trainable = any(parameter.requires_grad for parameter in self.bilm.parameters())
        with_gradients = is_trainable and torch.is_grad_enabled()
        with torch.set_grad_enabled(with_gradients), autocast_off(self.bilm.device):
            batch = self._looked_up(word_inputs) or self._spelled(inputs)
            lengths = token_counts(batch.mask) + 2
            layers = self._read(batch, lengths)
        mixed = self.scalar_mix(layers)  # (K, N, D)
        *rows, num_steps = batch.mask.shape
        keep = self._keep_boundaries
        padded, mask = pad_sentences(
            mixed, lengths, keep_boundaries=keep, min_steps=num_steps + 2 * keep
        )
        # Not iterated over: such views cannot be changed in place.
        mixes = [padded[k].view(*rows, *padded.shape[2:]) for k in range(len(padded))]
        return {"elmo_representations": mixes, "mask": mask.view(*rows, mask.shape[-1])}

    def _looked_up(self, word_inputs: Tensor | None) -> "_Batch | None":
        """Return a batch of cached words; None if a word is not cached."""
        if word_inputs is None:
            return None
        if self._vocab is None:
            _logger.warning("word_inputs are ignored, because there is no vocab_to_cache")
            return None
        words = word_inputs.numpy(force=True)
        if words.size and not 0 <= words.min() <= words.max() < len(self._vocab.lengths):
            return None
        return _Batch(self._cached_words(self._vocab), words[words > 0], words > 0)

    def _cached_words(self, vocab: Spelling) -> Tensor:
        """Return vectors of the cached words, then of the two boundaries, (V + 2, P)."""
        weights = list(self.bilm.token_encoder.parameters())
        return self._word_vectors.get(weights, lambda: encode_spelling(self.bilm, vocab))

    def _spelled(self, inputs: Tensor | None) -> "_Batch":
        """Return a batch of character ids: the character CNN runs once per distinct word."""
        ids = character_ids(inputs)
        mask: Mask = np.any(ids, axis=-1)
        words, tokens = distinct_words(ids[mask])
        return _Batch(encode_spelling(self.bilm, fit_slots(words, self._num_slots)), tokens, mask)

    def _read(self, batch: "_Batch", lengths: Int64) -> Tensor:
        """Return all layers (L+1, N, D), and carry the state from the last call to the next."""
        vectors = batch.vectors
        index = bounded(batch.tokens, lengths, len(vectors) - 2, len(vectors) - 1)
        rows = np.arange(len(lengths))
        start = self._carried.start(rows) if self.stateful else self._fresh(len(rows))
        layers: Tensor
        if torch.is_grad_enabled():
            tokens = vectors[torch.from_numpy(index).to(vectors.device)]
            layers, final = self.bilm(tokens, lengths, start)
        else:
            everything = choose_layers("all", self.bilm.config.num_layers, {})
            layers, final = infer_layers(self.bilm, vectors, index, lengths, start, everything)
        if self.stateful:
            self._carried.keep(rows, final)
        return layers

    def _fresh(self, num_rows: int) -> LstmState:
        bilm = self.bilm
        return zero_state(bilm.config.lstm, num_rows, bilm.device, bilm.dtype)


class ElmoTokenEmbedder(nn.Module):
    """One mix, and a projection if `projection_dim` is given; otherwise as `Elmo`."""

    def __init__(
        self,
        options_file: File | None = None,
        weight_file: File | None = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = True,
    ) -> None:
        super().__init__()
        self.elmo = Elmo(
            options_file, weight_file, 1, requires_grad, do_layer_norm, dropout, vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters, stateful=stateful,
        )  # fmt: skip
        dim = self.elmo.get_output_dim()
        self.projection = nn.Linear(dim, projection_dim) if projection_dim else nn.Identity()
        self.output_dim = projection_dim or dim

    def get_output_dim(self) -> int:
        """Return the width of a vector."""
        return self.output_dim

    def forward(self, elmo_tokens: Tensor | None, word_inputs: Tensor | None = None) -> Tensor:
        """(..., T, 50) -> (..., T, width)."""
        mixed = self.elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        return self.projection(mixed)  # type: ignore[no-any-return]
