"""ELMo as token embeddings of flair, whose own `ELMoEmbeddings` need AllenNLP 0.9.

    embeddings = ElmoEmbeddings(layers="mix")          # the mix is learned with the tagger
    tagger = SequenceTagger(embeddings=embeddings, tag_dictionary=labels, tag_type="ner")

flair saves a model with the names of its embeddings: import this module before loading one.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from elmox.config import BUNDLED
from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.integrations.packages import importing
from elmox.model.layer_mix import LayerMix

with importing("flair", "flair", "flair"):
    import flair
    from flair.embeddings.base import register_embeddings
    from flair.embeddings.token import TokenEmbeddings

LEARNED = "mix"


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):  # type: ignore[misc]  # flair is not installed with the rest
    """A vector per token, from a frozen biLM.

    Args:
        model: anything that `Elmo.from_pretrained` loads; None for the bundled English model.
        layers: "mix" learns the mix of the layers with the task. Anything else that
            `Elmo.encode_tokens` accepts is fixed; several layers are put side by side.
        dropout: dropout of the learned mix.
        name: the name of these embeddings in flair.
        digest: of the biLM that a saved model was trained with; checked.
    """

    embeddings_name = "ElmoEmbeddings"

    def __init__(
        self,
        model: str | None = None,
        layers: Layers = LEARNED,
        dropout: float = 0.0,
        name: str | None = None,
        digest: str | None = None,
    ) -> None:
        super().__init__()
        self.model = None if model is None else str(model)
        self.layers = layers
        self.dropout = dropout
        self.name = name or f"elmo-{self.model or BUNDLED}-{layers}"
        # Not a module, so that the weights of the biLM are not copied into every saved tagger.
        self.elmo = Elmo.from_pretrained(model, device=str(flair.device))
        if digest is not None and digest != self.elmo.digest():
            raise ElmoxError(f"{self.name}: {model or BUNDLED} is not the biLM it was trained with")
        num_layers = self.elmo.num_layers
        is_learned = layers == LEARNED
        self.static_embeddings = not is_learned
        self.mix: LayerMix | None = LayerMix(num_layers, dropout=dropout) if is_learned else None
        num_chosen = (
            1 if is_learned else choose_layers(layers, num_layers, self.elmo.mixes).num_chosen
        )
        self._length = self.elmo.dim * num_chosen
        self.to(flair.device)
        self.eval()

    @property
    def embedding_length(self) -> int:
        """Width of a vector."""
        return self._length

    def _everything_embedded(self, data_points: Sequence[Any]) -> bool:
        """Return whether there is nothing to compute: never for a mix that may have changed."""
        return self.static_embeddings and super()._everything_embedded(data_points)

    def _add_embeddings_internal(self, sentences: Sequence[Any]) -> None:
        self.elmo.to(flair.device)
        tokens = [[token.text for token in sentence] for sentence in sentences]
        chosen: Layers = self.layers if self.mix is None else "all"
        encoded = self.elmo.encode_tokens(
            tokens, layers=chosen, convert_to_tensor=True, show_progress_bar=False
        )
        vectors = self._token_vectors(torch.cat(encoded, dim=-2))
        everything = [token for sentence in sentences for token in sentence]
        for token, vector in zip(everything, vectors, strict=True):
            token.set_embedding(self.name, vector)

    def _token_vectors(self, encoded: Tensor) -> Tensor:
        """(J, N, D) or (N, D) -> (N, width)."""
        if self.mix is not None:
            mixed: Tensor = self.mix(encoded)[0]
            return mixed
        layers = encoded.view(-1, *encoded.shape[-2:])
        return layers.transpose(0, 1).flatten(1)

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> Self:
        """Return the embeddings of a saved model."""
        return cls(**params)

    def to_params(self) -> dict[str, Any]:
        """Return what a saved model stores besides the mix."""
        return {
            "model": self.model,
            "layers": self.layers,
            "dropout": self.dropout,
            "name": self.name,
            "digest": self.elmo.digest(),
        }

    def extra_repr(self) -> str:
        """Return the model and the layers."""
        return f"model={self.model or BUNDLED!r}, layers={self.layers!r}"
