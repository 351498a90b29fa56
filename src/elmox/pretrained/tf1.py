"""TensorFlow 1 checkpoints: what bilm-tf and simple_elmo_training write while they train, and the
variables of TF-Hub's ELMo modules.

| in training (after lm/) | for vectors (after bilm/; TF-Hub) | AI2's name |
|---|---|---|
| RNN_{d}/rnn/multi_rnn_cell/cell_{l}/lstm_cell/kernel | RNN_{d}/RNN/MultiRNNCell/Cell{l}/rnn/lstm_cell/kernel | .../LSTMCell/W_0 |
| .../bias | .../bias | .../LSTMCell/B |
| .../projection/kernel | .../projection/kernel | .../LSTMCell/W_P_0 |
| softmax/W, softmax/b | | the same |

All other names are AI2's. Models of one layer lack `multi_rnn_cell/cell_0`, those of one direction
`RNN_0`. The optimizer's variables are never read. The shapes are AI2's, so `ai2` reads the rest.
"""  # noqa: E501

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

from numpy.typing import NDArray

from elmox.config import ElmoConfig
from elmox.errors import ElmoxError, UnreadableFile
from elmox.io.files import read_json
from elmox.io.inputs import MAX_JSON_BYTES, read_whole
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.pretrained.ai2 import read_ai2
from elmox.pretrained.ai2_files import Companions, options_next_to, the_only_one, vocab_next_to
from elmox.pretrained.ai2_softmax import read_softmax_arrays
from elmox.pretrained.hdf5_arrays import ArrayFile
from elmox.pretrained.options import config_from_options
from elmox.pretrained.tf1_bundle import Bundle
from elmox.text.vocab import read_vocab

# Ends of the names by which a directory is recognized.
FOLDER_MARKS = (".index", "saved_model.pb", "tfhub_module.pb")

_PART = re.compile(r"(.+)\.(?:index|meta|data-\d{5}-of-\d{5})")
_LATEST = re.compile(r'^model_checkpoint_path:\s*"([^"\\]*)"', re.MULTILINE)
_PARTS = r"lstm_cell/(kernel|bias|projection/kernel)"
_CELLS = (
    re.compile(rf"(?:(RNN_\d+)/)?rnn/(?:multi_rnn_cell/cell_(\d+)/)?{_PARTS}"),
    re.compile(rf"(RNN_\d+)/RNN/MultiRNNCell/Cell(\d+)/rnn/{_PARTS}"),
)
_CELL_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}
_MODULE = "variables.index"  # the name of the index in TensorFlow's SavedModel


def is_part(name: str) -> bool:
    """Return whether a file of this name can belong to a checkpoint."""
    is_mark = name == "checkpoint" or name.endswith(FOLDER_MARKS)
    return is_mark or _PART.fullmatch(name) is not None


def find_index(path: Path) -> Path | None:
    """Return the index of a checkpoint, given any of its files or the name without an end."""
    match = _PART.fullmatch(path.name)
    for stem in (match[1] if match else "", path.name):
        index = path.with_name(f"{stem}.index")
        if stem and index.is_file():
            return index
    return None


def read_tf1_folder(folder: Path, companions: Companions) -> Checkpoint:
    """Read the latest checkpoint of a directory, or the variables of a TF-Hub module."""
    indices = sorted(path for path in folder.glob("*.index") if not path.name.startswith("."))
    module = folder / "variables" / _MODULE
    if not indices and module.is_file():
        return read_tf1(module, companions)
    latest = _latest(folder)
    if latest in indices:
        return read_tf1(latest, companions)
    if not indices:
        raise ElmoxError(f"{folder} contains no checkpoint: expected {folder}/variables/{_MODULE}")
    return read_tf1(the_only_one(indices, folder, "checkpoints"), companions)


def read_tf1(index: Path, companions: Companions) -> Checkpoint:
    """Read a checkpoint, and its softmax if there is a vocabulary for it.

    Args:
        index: the file NAME.index.
        companions: the options and the vocabulary, if they are not next to it.
    """
    arrays = _Ai2Names(Bundle(index))
    config, source, assumed = _config(index, arrays, companions.options)
    vocab = companions.vocab or vocab_next_to(index)
    reads_words = config.char_cnn is None or companions.token_embeddings is not None
    words = read_vocab(vocab) if vocab is not None and reads_words else None
    checkpoint = read_ai2(arrays, config, source, words, companions.token_embeddings)
    description = f"TensorFlow checkpoint {index.stem}{checkpoint.description}{assumed}"
    softmax = None
    if "softmax/b" in arrays:
        if vocab is None:
            description += ", without its softmax, because no vocabulary is next to it or given"
        else:
            dim = config.lstm.projection_dim
            softmax = StoredSoftmax(partial(_read_softmax, index, vocab, dim))
    return replace(checkpoint, description=description, softmax=softmax)


class _Ai2Names:
    """A checkpoint whose variables have the names of AI2's arrays."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.path = bundle.path
        scope = _scope(bundle.names(), bundle.path)
        inside = (name for name in bundle.names() if name.startswith(scope))
        self._names = {_ai2_name(name.removeprefix(scope)): name for name in inside}
        if "softmax/W" not in self._names and "embedding" in self._names:
            self._names["softmax/W"] = self._names["embedding"]  # share_embedding_softmax

    def __contains__(self, name: str) -> bool:
        return name in self._names or any(n.startswith(f"{name}/") for n in self._names)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._bundle.shape(self._names[name])

    def read(self, name: str) -> NDArray[Any]:
        return self._bundle.read(self._names[name])


def _scope(names: Iterable[str], path: Path) -> str:
    """Return what precedes the names of the biLM's variables, usually lm/ or bilm/.

    It is what precedes the characters, or the words of a model without characters.
    """
    for last in ("char_embed", "embedding"):
        scopes = [n.removesuffix(last) for n in names if n == last or n.endswith(f"/{last}")]
        if len(scopes) > 1:
            raise ElmoxError(f"{path} has several biLMs ({', '.join(scopes)}), expected one")
        if scopes:
            return scopes[0]
    raise ElmoxError(
        f"{path} is a TensorFlow checkpoint without ELMo: none of its variables is called "
        "char_embed or embedding"
    )


def _ai2_name(name: str) -> str:
    match = _CELLS[0].fullmatch(name) or _CELLS[1].fullmatch(name)
    if match is None:
        return name
    direction, layer, part = match.groups()
    wrapper = "" if layer is None else f"MultiRNNCell/Cell{layer}/"
    return f"{direction or 'RNN_0'}/RNN/{wrapper}LSTMCell/{_CELL_PARTS[part]}"


def _config(index: Path, arrays: ArrayFile, options: Path | None) -> tuple[ElmoConfig, str, str]:
    """Return the architecture, its source for error messages, and what was assumed.

    TF-Hub's modules have no options file.
    """
    if options is None and index.name == _MODULE:
        folder = index.parent
        known = (folder / "options.json", folder.parent / "options.json")
        options = next((path for path in known if path.is_file()), None)
        if options is None:
            assumed = (
                "; without an options file relu, clips of 3, residual connections and "
                "50 characters are assumed"
            )
            source = "the shape of its other variables"
            return config_from_options(_usual_options(arrays), str(index)), source, assumed
    options = options or options_next_to(index)
    return config_from_options(read_json(options), str(options)), str(options), ""


def _usual_options(arrays: ArrayFile) -> dict[str, Any]:
    """Return the options that the shapes imply, and for the rest those of AI2's models."""
    cell = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/W_0"
    banks = [_shape(arrays, f"CNN/W_cnn_{i}", 4) for i in range(_count(arrays, "CNN/W_cnn_{}"))]
    kernel = _shape(arrays, cell.format(0), 2)
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": kernel[0] // 2,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": kernel[1] // 4,
            "n_layers": _count(arrays, cell),
        },
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": _shape(arrays, "char_embed", 2)[1]},
            "filters": [[width, number] for _, width, _, number in banks],
            "n_highway": _count(arrays, "CNN_high_{}/W_carry"),
        },
    }


def _count(arrays: ArrayFile, pattern: str) -> int:
    """Count the consecutive names that exist: pattern.format(0), pattern.format(1), ..."""
    number = 0
    while pattern.format(number) in arrays:
        number += 1
    return number


def _shape(arrays: ArrayFile, name: str, num_dimensions: int) -> tuple[int, ...]:
    shape = arrays.shape(name) if name in arrays else None
    if shape is None or len(shape) != num_dimensions:
        raise ElmoxError(
            f"{arrays.path}: {name} has shape {shape}, expected {num_dimensions} dimensions"
        )
    return shape


def _read_softmax(index: Path, vocab: Path, dim: int) -> Softmax:
    return read_softmax_arrays(_Ai2Names(Bundle(index)), vocab, dim)


def _latest(folder: Path) -> Path | None:
    """Return the index that TensorFlow's text file `checkpoint` names.

    The path in it may be one of the machine on which the model was trained; its last part counts.
    """
    try:
        text = read_whole(folder / "checkpoint", MAX_JSON_BYTES).decode("utf-8", "replace")
    except UnreadableFile:
        return None
    match = _LATEST.search(text)
    return folder / f"{PureWindowsPath(match[1]).name}.index" if match else None
