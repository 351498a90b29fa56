"""A stored model as a value, whatever its file format.

Readers of native and legacy formats return a `Checkpoint`; everything else takes one. It is checked
once, here, so that a bad file is an error at loading, with a message that names the array.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from elmox.config import ElmoConfig
from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_RATIO
from elmox.io.tensors import digest
from elmox.kernels.torch_modes import TorchCalls
from elmox.model.bilm import BiLm
from elmox.model.layer_mix import Mix
from elmox.model.softmax import AdaptiveSoftmax, FullSoftmax, softmax_from_tensors
from elmox.model.state import LstmState
from elmox.model.weighted_pooling import WeightedPooling
from elmox.text.vocab import Vocab
from elmox.text.words import WordIndexer

ALIGNMENT = 64  # bytes; torch's own, for the CPU

_HASHING_THREADS = 4
_SOME_PARTS = 10


@dataclass(frozen=True)
class Softmax:
    """The language model's output layer.

    Attributes:
        tensors: the state dict of a `FullSoftmax` or `AdaptiveSoftmax`.
        vocab: the words it predicts, `SPECIAL_WORDS` first.
        source: the file it was read from, for error messages.
    """

    tensors: Mapping[str, Tensor]
    vocab: tuple[str, ...]
    source: str = "the softmax"


@dataclass(frozen=True)
class StoredSoftmax:
    """A softmax that is read when it is first used.

    It can be four times as large as the rest of a model, and vectors do not need it.
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
    """A biLM with its vocabularies, mixes, start state and softmax.

    Attributes:
        config: the architecture.
        tensors: the state dict of `BiLm(config)`.
        description: what the reader recognized, in words.
        characters: inventory of code points (ELMoForManyLangs), in the order of their ids.
        words: the input vocabulary of models that read word ids.
        mixes: learned mixes, by name.
        warm_state: the stored start state (one row), if any.
        pooling: the stored weighted pooling, if any.
        softmax: the language model's output layer, if any.
        softmax_package: the package that contains the softmax of an installed model.
    """

    config: ElmoConfig
    tensors: Mapping[str, Tensor]
    description: str
    characters: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    mixes: Mapping[str, Mix] = field(default_factory=dict)
    warm_state: LstmState | None = None
    pooling: WeightedPooling | None = None
    softmax: Softmax | StoredSoftmax | None = None
    softmax_package: str | None = None


def in_precision(checkpoint: Checkpoint, dtype: torch.dtype) -> Checkpoint:
    """Return the same model with weights, softmax and warm state rounded to another precision.

    Mixes and a weighted pooling are a few numbers and stay as they are.
    """
    softmax, state = checkpoint.softmax, checkpoint.warm_state
    if softmax is not None:
        tensors = _rounded(softmax.tensors, dtype, "the softmax")
        softmax = Softmax(tensors, softmax.vocab, softmax.source)
    if state is not None:
        parts = {"hidden": state.hidden, "cell": state.cell}
        state = LstmState(**_rounded(parts, dtype, "the warm state"))
    tensors = _rounded(checkpoint.tensors, dtype, "the biLM")
    return replace(checkpoint, tensors=tensors, softmax=softmax, warm_state=state)


def checkpoint_digest(checkpoint: Checkpoint, with_state: bool) -> str:
    """Return a digest of everything that vectors depend on.

    Args:
        checkpoint: a model.
        with_state: include the warm state, for vectors that start from it.
    """
    tensors = dict(checkpoint.tensors)
    state = checkpoint.warm_state
    if with_state and state is not None:
        tensors |= {"warm_state.hidden": state.hidden, "warm_state.cell": state.cell}
    with ThreadPoolExecutor(_HASHING_THREADS) as pool:
        digests = list(pool.map(lambda name: digest({name: tensors[name]}), sorted(tensors)))
    parts = (checkpoint.config, checkpoint.characters, checkpoint.words, digests)
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


@torch.inference_mode(False)
def build_bilm(checkpoint: Checkpoint, source: str) -> BiLm:
    """Make the network and check every array against it: names, shapes, finite values.

    Args:
        checkpoint: the result of a reader.
        source: the file or folder, for error messages.
    """
    _refuse_larger(checkpoint, source)
    with torch.device("meta"), _NothingDrawn():
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
                f"{source}: {name} has shape {tuple(tensor.shape)}, but its configuration requires "
                f"{tuple(expected[name].shape)}"
            )
        # Both ends are NaN if any value is. (`isfinite` takes 40 times as long.)
        if not all(end.isfinite() for end in tensor.aminmax()):
            raise ElmoxError(
                f"{source}: {name} contains NaN or infinite values: the file is damaged or its "
                "training diverged"
            )
    tensors = {name: _aligned(tensor) for name, tensor in checkpoint.tensors.items()}
    bilm.load_state_dict(tensors, assign=True)
    return bilm.requires_grad_(False).eval()


@torch.inference_mode(False)
def build_softmax(checkpoint: Checkpoint) -> FullSoftmax | AdaptiveSoftmax | None:
    """Make the output layer, if there is one, and check every array."""
    softmax = checkpoint.softmax
    if softmax is None:
        return None
    dim = checkpoint.config.lstm.projection_dim
    return softmax_from_tensors(softmax.tensors, len(softmax.vocab), dim, softmax.source)


def build_indexer(checkpoint: Checkpoint, source: str) -> WordIndexer:
    """Make the function that turns words into this model's ids."""
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


def _refuse_larger(checkpoint: Checkpoint, source: str) -> None:
    """Refuse a configuration of far more weights than there are, before a network is made.

    Smaller differences are reported later, with the name of the array.
    """
    config = checkpoint.config
    parts = config.lstm.num_layers
    if config.char_cnn is not None:
        parts += config.char_cnn.num_highways + len(config.char_cnn.filters)
    if parts > len(checkpoint.tensors) + _SOME_PARTS:
        raise ElmoxError(
            f"{source}: its configuration has {parts} layers, highways and filter banks, but the "
            f"weights are {len(checkpoint.tensors)} arrays"
        )
    numbers = sum(tensor.numel() for tensor in checkpoint.tensors.values())
    if config.num_parameters > MAX_RATIO * (numbers + 1):
        raise ElmoxError(
            f"{source}: its configuration requires {config.num_parameters:,} weights, but there "
            f"are {numbers:,}"
        )


class _NothingDrawn(TorchCalls):
    """Make modules without random weights, because others replace them at once.

    On the meta device there is nothing to draw, but drawing makes torch import its compiler, which
    takes longer than importing torch itself.
    """

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the tensor of an initializer as it is."""
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return super().call(func, args, kwargs)


def _aligned(tensor: Tensor) -> Tensor:
    """Return the same values at an address that is aligned as torch's own tensors are.

    Arrays of a file may not be. Products of them may sum in another order and differ in the last
    bit, so that vectors would depend on the file format.
    """
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def _rounded(tensors: Mapping[str, Tensor], dtype: torch.dtype, owner: str) -> dict[str, Tensor]:
    """Return every array in another precision, whose range must include its values."""
    rounded = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if rounded[name].isinf().any() and not tensor.isinf().any():
            largest = torch.finfo(dtype).max
            raise ElmoxError(
                f"{name} of {owner} has values beyond {largest:,.0f}, the largest that "
                f"{str(dtype).removeprefix('torch.')} can hold: store the model in float32"
            )
    return rounded
