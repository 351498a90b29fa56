"""ELMoForManyLangs folders (44 languages): code points instead of bytes, and word embeddings.

A folder contains config.json (which names the model's own configuration), char.dic and/or word.dic,
and two torch state dicts, token_embedder.pkl and encoder.pkl.
"""

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from torch import Tensor

from elmox.config import (
    PUBLISHED_FILTERS,
    CharCnnConfig,
    ElmoConfig,
    LstmConfig,
    TextConfig,
    WordConfig,
)
from elmox.errors import ElmoxError, shortened
from elmox.io.files import read_json
from elmox.io.inputs import MAX_WORDS_BYTES, read_whole
from elmox.model.checkpoint import Checkpoint
from elmox.pretrained.options import get_filters, get_option
from elmox.pretrained.torch_files import load_plain_tensors
from elmox.pretrained.torch_names import char_cnn_tensors, lstm_tensors, pick

# The configuration of the published models, for folders without one.
_PUBLISHED: dict[str, Any] = {
    "encoder": {
        "name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn", "activation": "relu", "filters": [list(bank) for bank in PUBLISHED_FILTERS],
        "n_highway": 2, "word_dim": 100, "char_dim": 50, "max_characters_per_token": 50,
    },
}  # fmt: skip

_WORD_MARKS = ("<oov>", "<bos>", "<eos>")
CHARACTER_MARKS = (*_WORD_MARKS, "<pad>", "<bow>", "<eow>")


def read_many_langs(folder: Path) -> Checkpoint:
    """Read a model folder: word and character, character only, or word only."""
    settings, origin = _settings(folder)
    try:
        has_words = get_option(settings, "token_embedder.word_dim", int, 0) > 0
        has_characters = get_option(settings, "token_embedder.char_dim", int, 0) > 0
        words = _dictionary(folder / "word.dic", _WORD_MARKS) if has_words else None
        characters = _dictionary(folder / "char.dic", CHARACTER_MARKS) if has_characters else None
        config = _config(settings, words, characters)
    except ElmoxError as error:
        raise ElmoxError(f"{folder}: {origin}: {error}") from error
    tensors = load_plain_tensors(folder / "token_embedder.pkl", f"{folder}/token_embedder.pkl")
    stack = load_plain_tensors(folder / "encoder.pkl", f"{folder}/encoder.pkl")
    ours = _encoder_tensors(tensors, config, f"{folder}/token_embedder.pkl")
    ours |= lstm_tensors(stack, "", config.lstm, f"{folder}/encoder.pkl")
    kind = " and ".join(n for n, d in (("words", words), ("characters", characters)) if d)
    return Checkpoint(
        config=config,
        tensors=ours,
        description=f"ELMoForManyLangs folder that reads {kind} (configuration from {origin})",
        characters=characters,
        words=words,
    )


def _settings(folder: Path) -> tuple[dict[str, Any], str]:
    """Read the model's configuration and name its origin.

    It is config.json itself, the file that config_path names, or that of the published models.
    """
    outer = read_json(folder / "config.json")
    if "token_embedder" in outer:
        return outer, "config.json"
    named = str(outer.get("config_path", ""))
    # The path is an absolute one on the authors' machine; only its last part means something here.
    for name in (named.rsplit("/", 1)[-1], PureWindowsPath(named).name):
        if name and (folder / name).is_file() and name != "config.json":
            return read_json(folder / name), name
    return _PUBLISHED, "the published models, because the folder has none"


def _config(
    settings: Mapping[str, Any],
    words: tuple[str, ...] | None,
    characters: tuple[str, ...] | None,
) -> ElmoConfig:
    for path, expected in (("encoder.name", "elmo"), ("token_embedder.name", "cnn")):
        name = get_option(settings, path, str, expected)
        if name.lower() != expected:
            raise ElmoxError(
                f"{path} is {name!r}; expected {expected!r} as in all published models"
            )
    max_characters = get_option(settings, "token_embedder.max_characters_per_token", int, 50)
    char_cnn = None
    if characters is not None:
        char_cnn = CharCnnConfig(
            filters=get_filters(settings, "token_embedder.filters"),
            embedding_dim=get_option(settings, "token_embedder.char_dim", int),
            num_characters=len(characters),
            max_characters=max_characters,
            activation=get_option(settings, "token_embedder.activation", str),
            num_highways=get_option(settings, "token_embedder.n_highway", int),
            inventory="unicode",
        )
    word_dim = get_option(settings, "token_embedder.word_dim", int, 0)
    return ElmoConfig(
        lstm=LstmConfig(
            cell_dim=get_option(settings, "encoder.dim", int),
            projection_dim=get_option(settings, "encoder.projection_dim", int),
            num_layers=get_option(settings, "encoder.n_layers", int),
            cell_clip=get_option(settings, "encoder.cell_clip", float, None),
            proj_clip=get_option(settings, "encoder.proj_clip", float, None),
            forget_bias=0.0,
        ),
        char_cnn=char_cnn,
        words=WordConfig(len(words), word_dim) if words is not None else None,
        token_projection=True,
        text=TextConfig("whitespace", "<bos>", "<eos>", "<oov>", max_characters - 2),
    )


def _encoder_tensors(
    tensors: Mapping[str, Tensor], config: ElmoConfig, source: str
) -> dict[str, Tensor]:
    ours: dict[str, Tensor] = {}
    if config.words is not None:
        shape = (config.words.num_words, config.words.dim)
        embedding = pick(tensors, "word_emb_layer.embedding.weight", shape, source)
        ours["token_encoder.word_embedding.weight"] = embedding
    if config.char_cnn is not None:
        shape = (config.char_cnn.num_characters, config.char_cnn.embedding_dim)
        embedding = pick(tensors, "char_emb_layer.embedding.weight", shape, source)
        ours["token_encoder.char_cnn.embedding.weight"] = embedding
        ours |= char_cnn_tensors(
            tensors, "convolutions.", "highways._layers.", config.char_cnn, source
        )
    p = config.lstm.projection_dim
    weight = pick(tensors, "projection.weight", (p, config.encoder_dim), source)
    bias = pick(tensors, "projection.bias", (p,), source)
    return {
        **ours,
        "token_encoder.projection.weight": weight,
        "token_encoder.projection.bias": bias,
    }


def _dictionary(path: Path, marks: tuple[str, ...]) -> tuple[str, ...]:
    """Read lines `item<TAB>id` in the order of ids. A line with one field is U+3000's."""
    if not path.is_file():
        raise ElmoxError(f"{path} does not exist, but the model's configuration requires it")
    try:
        text = read_whole(path, MAX_WORDS_BYTES).decode("utf-8")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    except UnicodeDecodeError as error:
        raise ElmoxError(f"{path} is not UTF-8 (byte {error.start})") from error
    items: dict[int, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        fields = line.strip().split("\t")
        item = "\u3000" if len(fields) == 1 else fields[0]
        if not (fields[-1].isdecimal() and len(fields[-1]) < 20):
            raise ElmoxError(f"{path}, line {number}: {shortened(line)}, expected item<TAB>id")
        if int(fields[-1]) in items:
            raise ElmoxError(f"{path}, line {number}: the id {fields[-1]} occurs a second time")
        items[int(fields[-1])] = item
    if sorted(items) != list(range(len(items))):
        raise ElmoxError(f"{path}: its ids are not 0 to {len(items) - 1}")
    missing = [mark for mark in marks if mark not in items.values()]
    if missing:
        raise ElmoxError(f"{path} lacks {missing[0]}, which every dictionary has")
    return tuple(items[index] for index in range(len(items)))
