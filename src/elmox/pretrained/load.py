"""Our own model directory, and the one function that loads any model from anywhere.

config.json           architecture, tokenizer, format number
model.safetensors     the biLM
softmax.safetensors   the language model's output layer    (if any; read when it is first used)
vocab.txt             the words that it predicts           (if any)
state.safetensors     the warm start state                 (if any)
mixes.safetensors     learned mixes, by name               (if any)
characters.json       inventory of code points             (ELMoForManyLangs models)
words.json            input vocabulary                     (models that read word ids)
README.md             the model card

Weights are stored in float32 or, at half the size, in float16. The bundled English model is such a
directory too, `models/english-small` inside the package.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from elmox.config import BUNDLED, LstmConfig, config_from_dict
from elmox.errors import ElmoxError
from elmox.io.files import atomic_directory, read_json, read_json_value, refuse_existing, to_json
from elmox.io.inputs import MAX_WORDS_BYTES, require_regular
from elmox.io.temporary import missing
from elmox.io.tensors import read_tensors, write_tensors
from elmox.model.checkpoint import Checkpoint, Softmax, StoredSoftmax
from elmox.model.layer_mix import Mix
from elmox.model.state import LstmState
from elmox.pretrained.ai2_softmax import read_ai2_softmax
from elmox.pretrained.many_langs import CHARACTER_MARKS
from elmox.pretrained.recognize import read_legacy
from elmox.text.vocab import SPECIAL_WORDS, read_vocab, vocab_file

MODEL_TYPE = "elmo"
FORMAT = 1
SOFTMAX_FILE = "softmax.safetensors"
VOCAB_FILE = "vocab.txt"

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_FILES = ("*.json", "*.safetensors", "*.hdf5", "*.pkl", "*.dic", "vocab.txt")
_CARD = """---
library_name: elmox
tags: [elmo, bilm, contextual-embeddings]
---

# An ELMo biLM for elmox

Made from: {description}.

{facts}

```python
from elmox import Elmo

elmo = Elmo.from_pretrained("path/to/this/directory")
vectors = elmo.encode_tokens([["Live", "in", "the", "present"]])
```
"""


@torch.inference_mode(False)  # the weights serve every later call
def load_checkpoint(
    path: str | Path | None = None,
    options: str | Path | None = None,
    vocab: str | Path | None = None,
    token_embeddings: str | Path | None = None,
    softmax: str | Path | None = None,
    softmax_vocab: str | Path | None = None,
) -> Checkpoint:
    """Load a model directory, any legacy checkpoint, or a model of the Hugging Face hub.

    Args:
        path: a directory, an .hdf5, .zip or .tar.gz file, or a hub id (`owner/name`); None or
            `english-small` for the model that comes with elmox.
        options: the options file of legacy weights, where it does not lie beside them.
        vocab: the input vocabulary of legacy word models and of `token_embeddings`.
        token_embeddings: bilm-tf's cached token vectors.
        softmax: AI2's softmax file, for models that have none of their own.
        softmax_vocab: the vocabulary of `softmax`.
    """
    where = _located(path)
    if is_model_directory(where):
        for name, given in (
            ("options", options),
            ("vocab", vocab),
            ("token_embeddings", token_embeddings),
        ):
            if given is not None:
                raise ElmoxError(f"{where} is complete in itself: leave out {name}={given}")
        checkpoint = read_directory(where)
        if checkpoint.softmax is not None and softmax is not None:
            raise ElmoxError(f"{where} has a softmax of its own: leave out softmax={softmax}")
    else:
        checkpoint = read_legacy(where, _path(options), _path(vocab), _path(token_embeddings))
    return _with_softmax(checkpoint, _path(softmax), _path(softmax_vocab))


def bundled_model() -> Path:
    """The directory of the model that comes with elmox."""
    folder = Path(str(files("elmox").joinpath("models", BUNDLED)))
    if not is_model_directory(folder):
        raise ElmoxError(
            f"{BUNDLED}, the model that comes with elmox, is not in {folder}: install elmox with "
            "pip, or give the path of another model"
        )
    return folder


def is_model_directory(path: Path) -> bool:
    """Whether this is a directory that `write_directory` made (or something meant to be one)."""
    return (path / "model.safetensors").is_file()


def read_directory(folder: Path) -> Checkpoint:
    """Read our own format. Weights come as float32, whatever precision they are stored in."""
    settings = read_json(folder / "config.json")
    if settings.pop("model_type", None) != MODEL_TYPE:
        raise ElmoxError(f"{folder}/config.json is not an ELMo model's (model_type is not 'elmo')")
    number = settings.pop("format", None)
    if number != FORMAT or number is True:
        raise ElmoxError(
            f"{folder} has format {number!r}, this elmox reads {FORMAT}: upgrade elmox"
        )
    config = config_from_dict(settings, f"{folder}/config.json")
    char_cnn, words = config.char_cnn, config.words
    spells_unicode = char_cnn is not None and char_cnn.inventory == "unicode"
    num_characters = char_cnn.num_characters if char_cnn and spells_unicode else None
    return Checkpoint(
        config=config,
        tensors=_read_float32(folder / "model.safetensors"),
        description=f"elmox model directory {folder.resolve().name}",
        characters=_read_strings(folder / "characters.json", num_characters, CHARACTER_MARKS),
        words=_read_strings(
            folder / "words.json",
            words.num_words if words else None,
            (config.text.begin, config.text.end),
        ),
        mixes=_read_mixes(folder / "mixes.safetensors", config.num_layers),
        warm_state=_read_state(folder / "state.safetensors", config.lstm),
        softmax=_stored_softmax(folder),
    )


def write_directory(
    checkpoint: Checkpoint, folder: Path, force: bool = False, card: str | None = None
) -> None:
    """Write our own format; the directory appears whole or not at all.

    Args:
        checkpoint: what to write, in the precision it has (see `in_precision`).
        folder: the directory to make.
        force: replace what is there.
        card: the model card, a Markdown text of the author's; `{facts}` in it becomes the table of
            what the model is. None for a card that says no more than that.
    """
    refuse_existing(folder, force)
    if folder.is_dir() and any(folder.iterdir()) and not is_model_directory(folder):
        raise ElmoxError(f"{folder} holds other things than a model: choose another name")
    with atomic_directory(folder) as new:
        settings = {"model_type": MODEL_TYPE, "format": FORMAT, **checkpoint.config.to_dict()}
        (new / "config.json").write_bytes(to_json(settings))
        write_tensors(checkpoint.tensors, new / "model.safetensors")
        if checkpoint.softmax is not None:
            write_tensors(checkpoint.softmax.tensors, new / SOFTMAX_FILE)
            (new / VOCAB_FILE).write_bytes(vocab_file(checkpoint.softmax.vocab))
        if checkpoint.warm_state is not None:
            state = checkpoint.warm_state
            parts = {"hidden": state.hidden, "cell": state.cell}
            write_tensors(parts, new / "state.safetensors")
        if checkpoint.mixes:
            write_tensors(_mix_tensors(checkpoint.mixes), new / "mixes.safetensors")
        for name, strings in (("characters", checkpoint.characters), ("words", checkpoint.words)):
            if strings is not None:
                text = json.dumps(strings, ensure_ascii=False)
                (new / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        text = _CARD.replace("{description}", checkpoint.description) if card is None else card
        text = text.replace("{facts}", _facts(checkpoint))
        (new / "README.md").write_text(text, encoding="utf-8")


def _located(path: str | Path | None) -> Path:
    """Where a model lies on this machine; one of the hub is fetched first."""
    if path is None:
        return bundled_model()
    where = Path(path)
    if where.exists():
        return where
    if path == BUNDLED:
        return bundled_model()
    if isinstance(path, Path) or not _HUB_ID.fullmatch(path):
        advice = f"give a model directory, a checkpoint file, or {BUNDLED}"
        raise ElmoxError(missing(where, advice))
    return _download(path)


def _with_softmax(checkpoint: Checkpoint, softmax: Path | None, vocab: Path | None) -> Checkpoint:
    """The same model with AI2's softmax, if one is given."""
    if softmax is None and vocab is None:
        return checkpoint
    if softmax is None or vocab is None:
        given = f"softmax={softmax}" if vocab is None else f"softmax_vocab={vocab}"
        raise ElmoxError(f"{given}: give the softmax file and its vocabulary together")
    for path in (softmax, vocab):
        if not path.exists():
            raise ElmoxError(f"{path} does not exist: expected AI2's softmax file, its vocabulary")
        require_regular(path)
    dim = checkpoint.config.lstm.projection_dim
    return replace(
        checkpoint, softmax=StoredSoftmax(partial(read_ai2_softmax, softmax, vocab, dim))
    )


def _stored_softmax(folder: Path) -> StoredSoftmax | None:
    """The softmax of a model directory, not read yet."""
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
    """The arrays of a file; what is stored in half the precision has the very same values."""
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
    """One tensor of a small file, or an error that names it."""
    if name not in tensors:
        raise ElmoxError(f"{path} lacks {name}")
    tensor = tensors[name]
    if tensor.shape != shape:
        raise ElmoxError(f"{path}: {name} has shape {tuple(tensor.shape)}, expected {shape}")
    if not torch.isfinite(tensor).all():
        raise ElmoxError(f"{path}: {name} contains NaN or infinite values")
    return tensor


def _read_strings(path: Path, number: int | None, marks: tuple[str, ...]) -> tuple[str, ...] | None:
    """A list of `number` strings, `marks` among them; None where the model has no use for it."""
    if number is None:
        return None
    strings = read_json_value(path, MAX_WORDS_BYTES)
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise ElmoxError(f"{path}: expected a list of strings")
    if len(strings) != number:
        raise ElmoxError(f"{path} has {len(strings)} items, but config.json says {number}")
    missing = [mark for mark in marks if mark not in strings]
    if missing:
        raise ElmoxError(f"{path} lacks {missing[0]}, which the model cannot do without")
    return tuple(strings)


def _download(hub_id: str) -> Path:
    """Fetch a model from the hub; after the first time it is found in the local cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=list(_FILES)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().split("\n")[0]
        raise ElmoxError(
            f"{hub_id} is neither a local path nor a model that the hub gave us: {reason}"
        ) from error


def _facts(checkpoint: Checkpoint) -> str:
    """What a model is, as a table for its card."""
    config = checkpoint.config
    lstm = config.lstm
    encoder = "word ids" if config.char_cnn is None else f"{config.char_cnn.inventory} of each word"
    directions = "bidirectional" if lstm.bidirectional else "forward"
    weights = list(checkpoint.tensors.values())
    numbers = f"{sum(tensor.numel() for tensor in weights):,} in {weights[0].dtype}"
    predicts = f"{len(checkpoint.softmax.vocab):,} words" if checkpoint.softmax else "no"
    return f"""\
| | |
|---|---|
| reads | {encoder} |
| LSTMs | {directions}, {lstm.num_layers} x {lstm.cell_dim} cells -> {lstm.projection_dim} |
| layers x width of a vector | {config.num_layers} x {config.dim} |
| parameters of the biLM | {numbers.replace("torch.", "")} |
| tokenizer | {config.text.tokenizer} |
| softmax (predicts words) | {predicts} |
| warm start state | {"yes" if checkpoint.warm_state else "no"} |
| mixes | {", ".join(checkpoint.mixes) or "none"} |"""


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)
