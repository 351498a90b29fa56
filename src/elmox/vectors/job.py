"""A job of embedding: what is embedded, how, and what identifies it."""

import hashlib
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from elmox.elmo import Elmo
from elmox.inference.layer_choice import Layers, choose_layers
from elmox.vectors.chunks import ChunkEmbedder, chunk_tokens
from elmox.vectors.inputs import Input
from elmox.vectors.layout import DType, Layout
from elmox.vectors.parts import PART_BYTES

# Closing a part waits for the disk four times, which a GPU would notice with smaller parts.
PART_BYTES_CUDA = 2**28


@dataclass(frozen=True)
class EmbedOptions:
    """The options that vectors depend on; described in `embed_file`."""

    layers: Layers = "all"
    dtype: DType = "float32"
    batch_tokens: int | None = None


class EmbedJob:
    """Everything that an output depends on.

    Attributes:
        input: the lines.
        layout: shape and dtype of the entries.
        about: a description for readers of the output.
        block_size: size of the blocks that the input is divided into (`text.lines.block_starts`).
        is_repeatable: whether another run can have the same job.
    """

    def __init__(self, elmo: Elmo, input: Input, options: EmbedOptions) -> None:
        """Describe the job; the input is not read yet."""
        self.input = input
        self._elmo, self._options = elmo, options
        self._choice = choose_layers(options.layers, elmo.num_layers, elmo.mixes)
        num_layers = None if self._choice.single else self._choice.num_chosen
        self.layout = Layout(num_layers, elmo.dim, options.dtype)
        self._settings = {"layers": repr(options.layers), **input.settings, "state": elmo.state}
        self.about: dict[str, Any] = {
            **self._settings,
            "model": elmo.description,
            "tokenizer": elmo.config.text.tokenizer,
        }
        self.block_size = input.block_size(chunk_tokens(self.layout, elmo.device))

    @property
    def is_repeatable(self) -> bool:
        """Whether another run can have the same job."""
        return self._identity is not None

    @cached_property
    def values(self) -> dict[str, Any]:
        """The identity of the job as JSON values; the input is read for it."""
        # An input that cannot be read again gets an identity that no other job has.
        identity = self._identity or f"once {uuid.uuid4()}"
        return {**self._settings, "input": identity, "model": fingerprint(self._elmo)}

    def embedder(self) -> ChunkEmbedder:
        """Return what turns chunks of lines into entries."""
        return ChunkEmbedder(self._elmo, self._choice, self.layout, self._options.batch_tokens)

    @cached_property
    def _identity(self) -> str | None:
        return self.input.identity()


def default_part_bytes(elmo: Elmo) -> int:
    """Return the default size of a part."""
    return PART_BYTES_CUDA if elmo.device.type == "cuda" else PART_BYTES


def fingerprint(elmo: Elmo) -> str:
    """Return a digest of everything that vectors depend on except the text."""
    parts = (elmo.digest(), elmo.mixes, elmo.device.type, elmo.dtype)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
