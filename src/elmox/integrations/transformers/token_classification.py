"""A tagger as in the paper: a learned mix of the layers, an LSTM, and a label per token."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers.modeling_outputs import TokenClassifierOutput

from elmox.integrations.transformers.config import ElmoConfig
from elmox.integrations.transformers.model import ElmoModel, ElmoPreTrainedModel
from elmox.model.layer_mix import LayerMix

IGNORED = -100  # the label of padding in the collators of transformers


class ElmoForTokenClassification(ElmoPreTrainedModel):
    """ELMo with a label per token.

    Args:
        config: the configuration, with `num_labels`.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config)
        num_layers = self.elmo.bilm.config.num_layers
        self.mix = LayerMix(num_layers, dropout=config.classifier_dropout)
        self.encoder = nn.LSTM(
            config.hidden_size, config.classifier_dim, batch_first=True, bidirectional=True
        )
        self.classifier = nn.Linear(2 * config.classifier_dim, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **options: Any,
    ) -> Any:
        """Score the labels of every token.

        Args:
            input_ids: character ids (B, T, C).
            attention_mask: (B, T), 0 at padding.
            labels: (B, T), -100 at padding; with them there is a loss.
            output_hidden_states: return all layers of the biLM.
            return_dict: False returns a tuple.
            **options: ignored; other models have them.
        """
        layers, mask = self.elmo.layers(input_ids, attention_mask)
        mixed = self.mix(layers)[0].to(self.classifier.weight.dtype)
        hidden = F.dropout(self._read(mixed, mask), self.config.classifier_dropout, self.training)
        logits = self.classifier(hidden)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        output = TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=tuple(layers) if output_hidden_states else None
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def _read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Run the LSTM over (B, T, D), so that a sentence does not depend on its padding."""
        num_steps = mask.shape[1]
        if not num_steps:
            return vectors.new_zeros(len(vectors), 0, self.classifier.in_features)
        lengths = mask.sum(1).clamp_min(1).cpu()  # an LSTM reads no sequence of length 0
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        hidden: Tensor
        hidden, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=num_steps
        )
        return hidden
