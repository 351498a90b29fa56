"""The legacy behavior, in which LSTM state is carried from call to call."""

from typing import Unpack, overload

import torch
from torch import Tensor

from elmox.inference.encode import BatchOptions
from elmox.inference.layer_choice import Layers
from elmox.inference.outputs import (
    ARRAYS,
    TENSORS,
    ArrayOptions,
    EitherOptions,
    FloatArray,
    NoArrayOptions,
    TensorOptions,
)
from elmox.inference.text_encoder import TextEncoder
from elmox.model.state import CarriedState
from elmox.text.inputs import Texts


class StatefulElmo:
    """Row i of a call starts where row i of the call before ended, as in bilm-tf and AllenNLP.

    Results depend on everything read before: use it to reproduce legacy vectors. A call with fewer
    rows leaves the others' state as it was; one with more starts the new rows afresh.
    """

    def __init__(self, elmo: TextEncoder) -> None:
        """Start with no row read; `elmo` itself stays without memory."""
        self._elmo = elmo
        self._carried = CarriedState(elmo.start_state)

    @overload
    def encode_tokens(
        self, sentences: Texts, **options: Unpack[ArrayOptions]
    ) -> list[FloatArray]: ...
    @overload
    def encode_tokens(self, sentences: Texts, **options: Unpack[TensorOptions]) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self, sentences: Texts, **options: Unpack[NoArrayOptions]
    ) -> list[Tensor]: ...
    @overload
    def encode_tokens(
        self, sentences: Texts, **options: Unpack[EitherOptions]
    ) -> list[FloatArray] | list[Tensor]: ...
    def encode_tokens(
        self,
        sentences: Texts,
        *,
        layers: Layers = "average",
        normalize_embeddings: bool = False,
        batch_size: int | None = None,
        batch_tokens: int | None = None,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        convert_to_numpy: bool = True,
        device: str | torch.device | None = None,
    ) -> list[FloatArray] | list[Tensor]:
        """Return a vector per token for the rows of one call; their batching changes nothing.

        The arguments are those of `Elmo.encode_tokens`.
        """
        batches = BatchOptions(batch_size, batch_tokens, show_progress_bar)
        read, carried = self._elmo.token_vectors, self._carried
        if convert_to_tensor or not convert_to_numpy:
            return read(TENSORS, sentences, layers, normalize_embeddings, batches, device, carried)
        return read(ARRAYS, sentences, layers, normalize_embeddings, batches, device, carried)

    def reset(self) -> None:
        """Forget everything: the next call starts afresh."""
        self._carried.reset()

    def __repr__(self) -> str:
        return f"StatefulElmo({self._elmo!r}, {self._carried.num_rows} rows carried)"
