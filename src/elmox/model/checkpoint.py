"""What a stored model consists of, whatever format it was stored in.

Readers of native and legacy formats return a `Checkpoint`; everything else takes one. It is checked
once, here, so that a bad file is found at loading with a message that names the array.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from elmox.config import ElmoConfig
from elmox.errors import ElmoxError
from elmox.model.bilm import BiLm
from elmox.model.scalar_mix import Mix
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax, softmax_from_tensors
from elmox.model.state import LstmState
from elmox.text.vocab import Vocab
from elmox.text.words import WordIndexer


@dataclass(frozen=True)
class Softmax:
    """The language model's output layer.

    Attributes:
        tensors: the state dict of a `FullSoftmax` or `AdaptiveSoftmax`.
        vocab: the words it predicts, `SPECIAL_WORDS` first.
        source: where it was read, for error messages.
    """

    tensors: Mapping[str, Tensor]
    vocab: tuple[str, ...]
    source: str = "the softmax"


@dataclass(frozen=True)
class StoredSoftmax:
    """A softmax that is read when it is first looked at.

    It can be four times as large as the rest of a model, and whoever wants vectors never looks.
    """

    read: Callable[[], Softmax]

    @cached_property
    def _softmax(self) -> Softmax:
        return self.read()

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """See `Softmax`."""
        return self._softmax.tensors

    @property
    def vocab(self) -> tuple[str, ...]:
        """See `Softmax`."""
        return self._softmax.vocab

    @property
    def source(self) -> str:
        """See `Softmax`."""
        return self._softmax.source


@dataclass(frozen=True)
class Checkpoint:
    """A biLM and what belongs to it.

    Attributes:
        config: the architecture.
        tensors: the state dict of `BiLm(config)`.
        found: what the reader recognised, in words.
        characters: inventory of code points (ELMoForManyLangs), in the order of their ids.
        words: the input vocabulary of models that read word ids.
        mixes: learned mixes, by name.
        warm_state: the stored start state (one row), if any.
        softmax: the language model's output layer, if any.
    """

    config: ElmoConfig
    tensors: Mapping[str, Tensor]
    found: str
    characters: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    mixes: Mapping[str, Mix] = field(default_factory=dict)
    warm_state: LstmState | None = None
    softmax: Softmax | StoredSoftmax | None = None


def build_bilm(checkpoint: Checkpoint, source: str) -> BiLm:
    """Make the network and check every array against it: names, shapes, finite values.

    Args:
        checkpoint: what a reader returned.
        source: the file or folder, for error messages.
    """
    with torch.device("meta"):
        bilm = BiLm(checkpoint.config)
    expected = bilm.state_dict()
    missing = sorted(expected.keys() - checkpoint.tensors.keys())
    if missing:
        raise ElmoxError(f"{source} lacks {missing[0]} ({len(missing)} arrays are missing)")
    unknown = sorted(checkpoint.tensors.keys() - expected.keys())
    if unknown:
        raise ElmoxError(f"{source} has {unknown[0]}, which its configuration does not mention")
    for name, tensor in checkpoint.tensors.items():
        if tensor.shape != expected[name].shape:
            raise ElmoxError(
                f"{source}: {name} has shape {tuple(tensor.shape)}, but its configuration asks for "
                f"{tuple(expected[name].shape)}"
            )
        if not torch.isfinite(tensor).all():
            raise ElmoxError(
                f"{source}: {name} contains NaN or infinite values: the file is damaged or its "
                "training diverged"
            )
    bilm.load_state_dict(dict(checkpoint.tensors), assign=True)
    return bilm.requires_grad_(False).eval()


def build_softmax(checkpoint: Checkpoint) -> FullSoftmax | AdaptiveSoftmax | None:
    """Make the output layer, if there is one, and check every array of it."""
    softmax = checkpoint.softmax
    if softmax is None:
        return None
    dim = checkpoint.config.lstm.projection_dim
    return softmax_from_tensors(softmax.tensors, len(softmax.vocab), dim, softmax.source)


def build_indexer(checkpoint: Checkpoint, source: str) -> WordIndexer:
    """How this model turns words into ids."""
    char_cnn, text = checkpoint.config.char_cnn, checkpoint.config.text
    characters, words = checkpoint.characters, checkpoint.words
    return WordIndexer(
        max_characters=char_cnn.max_characters if char_cnn else None,
        characters={c: i for i, c in enumerate(characters)} if characters else None,
        vocab=Vocab(words, text.unknown, source) if words else None,
        max_code_points=text.max_code_points,
        begin=text.begin,
        end=text.end,
    )
