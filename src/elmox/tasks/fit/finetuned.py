"""A biLM that is fine-tuned with the task.

It reads every batch anew, because its layers change with every update. Gradients reach all of its
weights, those of the character CNN included. Dropout is applied to the mix of its layers only.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from elmox.elmo import Elmo
from elmox.inference.layers import pad_sentences, read_layers
from elmox.tasks.data.texts import Sentence


def trainable_copy(elmo: Elmo) -> Elmo:
    """Return a copy of the biLM with separate weights.

    A softmax, mixes, a warm state and a pooling are dropped: they belong to the original weights.
    """
    checkpoint = elmo.checkpoint()
    tensors = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
    origin = f"{checkpoint.description}, learned further with a task"
    return Elmo(
        replace(
            checkpoint,
            tensors=tensors,
            description=origin,
            softmax=None,
            mixes={},
            warm_state=None,
            pooling=None,
        )
    )


class FinetunedElmo(nn.Module):
    """Sentences to all layers, with gradients.

    Attributes:
        elmo: whose weights are learned; it is changed.
    """

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo = elmo
        self.bilm = elmo.reader.bilm.requires_grad_(True)

    def forward(self, sentences: Sequence[Sentence]) -> Tensor:
        """(L+1, N, T, D), zero at padding; at least one word wide."""
        state = self.elmo.start_state(len(sentences))
        ragged = read_layers(self.elmo.reader, sentences, state, torch.is_grad_enabled())
        layers, _ = pad_sentences(ragged.values, ragged.lengths, min_steps=1)
        return layers
