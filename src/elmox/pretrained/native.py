"""The elmox model directory.

config.json           architecture, tokenizer, format number
model.safetensors     the biLM
softmax.safetensors   the language model's output layer    (if any; read when it is first used)
vocab.txt             the words that it predicts           (if any)
state.safetensors     the warm start state                 (if any)
mixes.safetensors     learned mixes, by name               (if any)
pooling.safetensors   directions of sentence vectors       (if any; see `pooling_files.py`)
pooling.json          weights of words                     (with it)
characters.json       inventory of code points             (ELMoForManyLangs models)
words.json            input vocabulary                     (models that read word ids)
checksums.json        checksums of these files, compared when they are read
README.md             the model card
taggers/              fitted task models that read its layers  (if any; see `tasks/ready.py`)

Weights are stored in float32; at half the size in float16 or bfloat16; or, at a quarter, in 8-bit
integers with scales (`io/quantized.py`), which `storage` in config.json declares per file, with the
format number 2. The bundled English model is such a directory too, `models/english-small` inside
the package.
"""

import json
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from elmox.config import LstmConfig, config_from_dict
from elmox.errors import ElmoxError, shortened
from elmox.io.checksums import verifying, write_checksums
from elmox.io.files import atomic_directory, read_json, read_json_value, refuse_existing, to_json
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.io.quantized import packed, read_weights
from elmox.io.tensors import checked_tensor, read_tensors, write_tensors
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.model.layer_mix import Mix
from elmox.model.state import LstmState
from elmox.pretrained import pooling_files
from elmox.pretrained.card import model_card
from elmox.pretrained.many_langs import CHARACTER_MARKS
from elmox.pretrained.pooling_files import read_pooling, write_pooling
from elmox.text.vocab import SPECIAL_WORDS, read_vocab, vocab_file

MODEL_TYPE = "elmo"
FORMAT = 1
FORMAT_WITH_STORAGE = 2  # files in 8 bits
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
SOFTMAX_FILE = "softmax.safetensors"
VOCAB_FILE = "vocab.txt"
STATE_FILE = "state.safetensors"
MIXES_FILE = "mixes.safetensors"
CHARACTERS_FILE = "characters.json"
WORDS_FILE = "words.json"
_READ_AT_ONCE = (
    *(CONFIG_FILE, WEIGHTS_FILE, STATE_FILE, MIXES_FILE, CHARACTERS_FILE, WORDS_FILE),
    *(pooling_files.TENSORS_FILE, pooling_files.WORDS_FILE),
)
TAGGERS_FOLDER = "taggers"  # fitted task models that read this model's layers
EMBEDDING_FILE = "embedding.json"  # of a saved `ElmoEmbedding`, which is another kind of directory

Part: TypeAlias = Literal["model", "softmax"]
PARTS: tuple[Part, ...] = get_args(Part)

# The longest groups that share a scale in 8 bits, by a part of the name. Errors of projections
# spread most; those of highways least, and highways are large. Biases and the few weights of the
# character CNN stay in float16.
_GROUP = 128
_GROUPS = {"projection": 32, "highways": 2**16, "char_cnn": None, "bias": None}


def is_model_directory(path: Path) -> bool:
    """Return whether this looks like a directory that `write_directory` made."""
    return (path / WEIGHTS_FILE).is_file()


def read_directory(folder: Path, verify: bool = True) -> Checkpoint:
    """Read a model directory. Weights come as float32, whatever precision they are stored in.

    Args:
        folder: the directory.
        verify: compare the files with their checksums, if the directory has any.
    """
    with verifying(folder, _READ_AT_ONCE, verify):
        return _read_directory(folder, verify)


def _read_directory(folder: Path, verify: bool) -> Checkpoint:
    settings = read_json(folder / CONFIG_FILE)
    if (kind := settings.pop("model_type", None)) != MODEL_TYPE:
        raise ElmoxError(
            f"{folder}/{CONFIG_FILE} is not an ELMo model's: its model_type is {shortened(kind)}, "
            f"expected {MODEL_TYPE!r}"
        )
    if "format" not in settings and "transformers_version" in settings:
        raise ElmoxError(
            f"{folder} was saved by transformers: load it with elmox.integrations.transformers"
        )
    eight_bit = _parts_in_eight_bits(settings, folder)
    config = config_from_dict(settings, f"{folder}/{CONFIG_FILE}")
    char_cnn, words = config.char_cnn, config.words
    spells_unicode = char_cnn is not None and char_cnn.inventory == "unicode"
    num_characters = char_cnn.num_characters if char_cnn and spells_unicode else None
    return Checkpoint(
        config=config,
        tensors=read_weights(folder / WEIGHTS_FILE, eight_bit="model" in eight_bit),
        description=f"elmox model directory {folder.resolve().name}",
        characters=_read_strings(folder / CHARACTERS_FILE, num_characters, CHARACTER_MARKS),
        words=_read_strings(
            folder / WORDS_FILE,
            words.num_words if words else None,
            (config.text.begin, config.text.end),
        ),
        mixes=_read_mixes(folder / MIXES_FILE, config.num_layers),
        warm_state=_read_state(folder / STATE_FILE, config.lstm),
        pooling=read_pooling(folder, config),
        softmax=stored_softmax(folder, "softmax" in eight_bit, verify),
    )


def write_directory(
    checkpoint: Checkpoint,
    folder: Path,
    force: bool = False,
    card: str | None = None,
    eight_bit: Collection[Part] = (),
) -> None:
    """Write a model directory; it appears whole or not at all.

    Args:
        checkpoint: the model, in the precision in which it is stored (see `in_precision`).
        folder: the directory to make.
        force: replace an existing model.
        card: the model card, in Markdown; `{facts}` in it is replaced by a table of facts about the
            model. None for a plain card with this table.
        eight_bit: what to store in 8 bits instead of the checkpoint's precision.
    """
    refuse_existing(folder, force)
    if folder.is_dir() and any(folder.iterdir()) and not is_model_directory(folder):
        raise ElmoxError(f"{folder} holds other things than a model: choose another name")
    with atomic_directory(folder) as new:
        parts = [part for part in PARTS if part in eight_bit]
        settings: dict[str, Any] = {"model_type": MODEL_TYPE, "format": FORMAT}
        if parts:
            settings |= {"format": FORMAT_WITH_STORAGE, "storage": dict.fromkeys(parts, "int8")}
        (new / CONFIG_FILE).write_bytes(to_json(settings | checkpoint.config.to_dict()))
        write_tensors(_as_stored(checkpoint.tensors, "model" in parts), new / WEIGHTS_FILE)
        if checkpoint.softmax is not None:
            softmax = _as_stored(checkpoint.softmax.tensors, "softmax" in parts)
            write_tensors(softmax, new / SOFTMAX_FILE)
            (new / VOCAB_FILE).write_bytes(vocab_file(checkpoint.softmax.vocab))
        if checkpoint.warm_state is not None:
            state = checkpoint.warm_state
            write_tensors({"hidden": state.hidden, "cell": state.cell}, new / STATE_FILE)
        if checkpoint.mixes:
            write_tensors(_mix_tensors(checkpoint.mixes), new / MIXES_FILE)
        if checkpoint.pooling is not None:
            write_pooling(checkpoint.pooling, new)
        for name, strings in (("characters", checkpoint.characters), ("words", checkpoint.words)):
            if strings is not None:
                text = json.dumps(strings, ensure_ascii=False)
                (new / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        write_checksums(new)
        (new / "README.md").write_text(
            model_card(checkpoint, card, "int8" if "model" in parts else None), encoding="utf-8"
        )


def _parts_in_eight_bits(settings: dict[str, Any], folder: Path) -> frozenset[str]:
    """Take format and storage out of a config; return the parts that are stored in 8 bits."""
    number, storage = settings.pop("format", None), settings.pop("storage", None)
    if number is True or number not in (FORMAT, FORMAT_WITH_STORAGE):
        raise ElmoxError(
            f"{folder} has format {shortened(number)}, this elmox reads {FORMAT} and "
            f"{FORMAT_WITH_STORAGE}: upgrade elmox"
        )
    if number == FORMAT and storage is None:
        return frozenset()
    is_known = isinstance(storage, dict) and all(
        part in PARTS and kind == "int8" for part, kind in storage.items()
    )
    if number == FORMAT or not is_known:
        raise ElmoxError(
            f"{folder}/{CONFIG_FILE} of format {number} has storage {shortened(storage)}, expected "
            'none in format 1, and {"model": "int8", "softmax": "int8"} or one of them in format 2'
        )
    return frozenset(storage)


def _as_stored(tensors: Mapping[str, Tensor], eight_bit: bool) -> Mapping[str, Tensor]:
    return packed(tensors, _most_per_group) if eight_bit else tensors


def _most_per_group(name: str) -> int | None:
    return next((most for part, most in _GROUPS.items() if part in name), _GROUP)


def stored_softmax(folder: Path, eight_bit: bool, verify: bool = True) -> StoredSoftmax | None:
    """Return the softmax of a directory, which is not read yet; None if it has none.

    Args:
        folder: where softmax and vocabulary are.
        eight_bit: whether the softmax is stored in 8 bits.
        verify: compare the files with their checksums when they are read.
    """
    missing = [name for name in (SOFTMAX_FILE, VOCAB_FILE) if not (folder / name).is_file()]
    if len(missing) == 1:
        raise ElmoxError(
            f"{folder} lacks {missing[0]}: a softmax is {SOFTMAX_FILE} and {VOCAB_FILE}, or neither"
        )
    return None if missing else StoredSoftmax(partial(_read_softmax, folder, eight_bit, verify))


def _read_softmax(folder: Path, eight_bit: bool, verify: bool) -> Softmax:
    with verifying(folder, (SOFTMAX_FILE, VOCAB_FILE), verify):
        words = read_vocab(folder / VOCAB_FILE).words
        if words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
            marks = ", ".join(SPECIAL_WORDS)
            raise ElmoxError(f"{folder / VOCAB_FILE} does not begin with {marks}")
        tensors = read_weights(folder / SOFTMAX_FILE, eight_bit=eight_bit)
    return Softmax(tensors, words, str(folder / SOFTMAX_FILE))


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
        weights = checked_tensor(tensors, f"{name}.weights", (num_layers,), path)
        gamma = checked_tensor(tensors, f"{name}.gamma", (), path)
        mixes[name] = Mix(tuple(weights.tolist()), float(gamma))
    return mixes


def _read_state(path: Path, lstm: LstmConfig) -> LstmState | None:
    if not path.exists():
        return None
    tensors = read_weights(path)
    rows = (lstm.num_layers, lstm.num_directions, 1)
    return LstmState(
        checked_tensor(tensors, "hidden", (*rows, lstm.projection_dim), path),
        checked_tensor(tensors, "cell", (*rows, lstm.cell_dim), path),
    )


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
