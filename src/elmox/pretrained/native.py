"""The elmox model directory.

config.json           architecture, tokenizer, format number
model.safetensors     the biLM
softmax.safetensors   the language model's output layer    (if any; read when it is first used)
vocab.txt             the words that it predicts           (if any)
state.safetensors     the warm start state                 (if any)
mixes.safetensors     learned mixes, by name               (if any)
characters.json       inventory of code points             (ELMoForManyLangs models)
words.json            input vocabulary                     (models that read word ids)
README.md             the model card

Weights are stored in float32 or, at half the size, in float16 or bfloat16. The bundled English
model is such a directory too, `models/english-small` inside the package.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from elmox.config import LstmConfig, config_from_dict
from elmox.errors import ElmoxError, shortened
from elmox.io.files import atomic_directory, read_json, read_json_value, refuse_existing, to_json
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.io.tensors import read_tensors, write_tensors
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.model.layer_mix import Mix
from elmox.model.state import LstmState
from elmox.pretrained.card import model_card
from elmox.pretrained.many_langs import CHARACTER_MARKS
from elmox.text.vocab import SPECIAL_WORDS, read_vocab, vocab_file

MODEL_TYPE = "elmo"
FORMAT = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
SOFTMAX_FILE = "softmax.safetensors"
VOCAB_FILE = "vocab.txt"
STATE_FILE = "state.safetensors"
MIXES_FILE = "mixes.safetensors"
EMBEDDING_FILE = "embedding.json"  # of a saved `ElmoEmbedding`, which is another kind of directory


def is_model_directory(path: Path) -> bool:
    """Return whether this looks like a directory that `write_directory` made."""
    return (path / WEIGHTS_FILE).is_file()


def read_directory(folder: Path) -> Checkpoint:
    """Read a model directory. Weights come as float32, whatever precision they are stored in."""
    settings = read_json(folder / CONFIG_FILE)
    if (kind := settings.pop("model_type", None)) != MODEL_TYPE:
        raise ElmoxError(
            f"{folder}/{CONFIG_FILE} is not an ELMo model's: its model_type is {shortened(kind)}, "
            f"expected {MODEL_TYPE!r}"
        )
    number = settings.pop("format", None)
    if number is None and "transformers_version" in settings:
        raise ElmoxError(
            f"{folder} was saved by transformers: load it with elmox.integrations.transformers"
        )
    if number != FORMAT or number is True:
        raise ElmoxError(
            f"{folder} has format {shortened(number)}, this elmox reads {FORMAT}: upgrade elmox"
        )
    config = config_from_dict(settings, f"{folder}/{CONFIG_FILE}")
    char_cnn, words = config.char_cnn, config.words
    spells_unicode = char_cnn is not None and char_cnn.inventory == "unicode"
    num_characters = char_cnn.num_characters if char_cnn and spells_unicode else None
    return Checkpoint(
        config=config,
        tensors=_read_float32(folder / WEIGHTS_FILE),
        description=f"elmox model directory {folder.resolve().name}",
        characters=_read_strings(folder / "characters.json", num_characters, CHARACTER_MARKS),
        words=_read_strings(
            folder / "words.json",
            words.num_words if words else None,
            (config.text.begin, config.text.end),
        ),
        mixes=_read_mixes(folder / MIXES_FILE, config.num_layers),
        warm_state=_read_state(folder / STATE_FILE, config.lstm),
        softmax=_stored_softmax(folder),
    )


def write_directory(
    checkpoint: Checkpoint, folder: Path, force: bool = False, card: str | None = None
) -> None:
    """Write a model directory; it appears whole or not at all.

    Args:
        checkpoint: the model, in the precision in which it is stored (see `in_precision`).
        folder: the directory to make.
        force: replace an existing model.
        card: the model card, in Markdown; `{facts}` in it is replaced by a table of facts about the
            model. None for a plain card with this table.
    """
    refuse_existing(folder, force)
    if folder.is_dir() and any(folder.iterdir()) and not is_model_directory(folder):
        raise ElmoxError(f"{folder} holds other things than a model: choose another name")
    with atomic_directory(folder) as new:
        settings = {"model_type": MODEL_TYPE, "format": FORMAT, **checkpoint.config.to_dict()}
        (new / CONFIG_FILE).write_bytes(to_json(settings))
        write_tensors(checkpoint.tensors, new / WEIGHTS_FILE)
        if checkpoint.softmax is not None:
            write_tensors(checkpoint.softmax.tensors, new / SOFTMAX_FILE)
            (new / VOCAB_FILE).write_bytes(vocab_file(checkpoint.softmax.vocab))
        if checkpoint.warm_state is not None:
            state = checkpoint.warm_state
            parts = {"hidden": state.hidden, "cell": state.cell}
            write_tensors(parts, new / STATE_FILE)
        if checkpoint.mixes:
            write_tensors(_mix_tensors(checkpoint.mixes), new / MIXES_FILE)
        for name, strings in (("characters", checkpoint.characters), ("words", checkpoint.words)):
            if strings is not None:
                text = json.dumps(strings, ensure_ascii=False)
                (new / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        (new / "README.md").write_text(model_card(checkpoint, card), encoding="utf-8")


def _stored_softmax(folder: Path) -> StoredSoftmax | None:
    """Return the softmax of a model directory, which is not read yet."""
    missing = [name for name in (SOFTMAX_FILE, VOCAB_FILE) if not (folder / name).is_file()]
    if len(missing) == 1:
        raise ElmoxError(
            f"{folder} lacks {missing[0]}: a softmax is {SOFTMAX_FILE} and {VOCAB_FILE}, or neither"
        )
    return None if missing else StoredSoftmax(partial(_read_softmax, folder))


def _read_softmax(folder: Path) -> Softmax:
    words = read_vocab(folder / VOCAB_FILE).words
    if words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
        raise ElmoxError(f"{folder / VOCAB_FILE} does not begin with {', '.join(SPECIAL_WORDS)}")
    return Softmax(_read_float32(folder / SOFTMAX_FILE), words, str(folder / SOFTMAX_FILE))


def _read_float32(path: Path) -> dict[str, Tensor]:
    """Read the arrays of a file; those in half precision keep exactly the same values."""
    return {name: tensor.float() for name, tensor in read_tensors(path).items()}


def _mix_tensors(mixes: Mapping[str, Mix]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, mix in mixes.items():
        tensors[f"{name}.weights"] = torch.tensor(mix.weights)
        tensors[f"{name}.gamma"] = torch.tensor(mix.gamma)
    return tensors


def _read_mixes(path: Path, num_layers: int) -> dict[str, Mix]:
    if not path.exists():
        return {}
    tensors = read_tensors(path)
    names = [name.removesuffix(".weights") for name in tensors if name.endswith(".weights")]
    mixes = {}
    for name in names:
        weights = _checked(tensors, f"{name}.weights", (num_layers,), path)
        gamma = _checked(tensors, f"{name}.gamma", (), path)
        mixes[name] = Mix(tuple(weights.tolist()), float(gamma))
    return mixes


def _read_state(path: Path, lstm: LstmConfig) -> LstmState | None:
    if not path.exists():
        return None
    tensors = _read_float32(path)
    rows = (lstm.num_layers, lstm.num_directions, 1)
    return LstmState(
        _checked(tensors, "hidden", (*rows, lstm.projection_dim), path),
        _checked(tensors, "cell", (*rows, lstm.cell_dim), path),
    )


def _checked(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], path: Path
) -> Tensor:
    """Return one tensor of a small file, or raise an error that names it."""
    if name not in tensors:
        raise ElmoxError(f"{path} lacks {name}")
    tensor = tensors[name]
    if tensor.shape != shape:
        raise ElmoxError(f"{path}: {name} has shape {tuple(tensor.shape)}, expected {shape}")
    if not torch.isfinite(tensor).all():
        raise ElmoxError(f"{path}: {name} contains NaN or infinite values")
    return tensor


def _read_strings(path: Path, number: int | None, marks: tuple[str, ...]) -> tuple[str, ...] | None:
    """Read a list of `number` strings that contains `marks`; None if `number` is None."""
    if number is None:
        return None
    strings = read_json_value(path, MAX_WORDS_BYTES)
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise ElmoxError(f"{path}: expected a list of strings")
    if len(strings) != number:
        raise ElmoxError(f"{path} has {len(strings)} items, expected {number} as in {CONFIG_FILE}")
    missing = [mark for mark in marks if mark not in strings]
    if missing:
        raise ElmoxError(f"{path} lacks {missing[0]}, which the model needs")
    return tuple(strings)
