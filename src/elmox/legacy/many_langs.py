"""ELMoForManyLangs folders (44 languages): code points instead of bytes, word embeddings beside.

A folder holds config.json (which names the model's own configuration), char.dic and/or word.dic,
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
from elmox.errors import ElmoxError
from elmox.files import read_json
from elmox.legacy.torch_names import highway_tensors, load_plain_tensors, lstm_tensors, pick
from elmox.model.checkpoint import Checkpoint

# The configuration of the published models, for folders whose own was lost.
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


def read_many_langs(folder: Path) -> Checkpoint:
    """Read a model folder: word and character, character only, or word only."""
    settings, origin = _settings(folder)
    source = str(folder)
    encoder, embedder = settings.get("encoder", {}), settings.get("token_embedder", {})
    if (
        encoder.get("name", "elmo").lower() != "elmo"
        or embedder.get("name", "cnn").lower() != "cnn"
    ):
        raise ElmoxError(
            f"{folder}: encoder {encoder.get('name')!r} with token embedder "
            f"{embedder.get('name')!r}; elmox reads 'elmo' with 'cnn', as all published models are"
        )
    words = _dictionary(folder / "word.dic") if embedder.get("word_dim", 0) > 0 else None
    characters = _dictionary(folder / "char.dic") if embedder.get("char_dim", 0) > 0 else None
    try:
        config = _config(encoder, embedder, words, characters)
    except (KeyError, TypeError) as error:
        raise ElmoxError(f"{folder}: {origin} lacks or misstates {error}") from error
    tensors = load_plain_tensors(folder / "token_embedder.pkl", f"{folder}/token_embedder.pkl")
    stack = load_plain_tensors(folder / "encoder.pkl", f"{folder}/encoder.pkl")
    ours = _encoder_tensors(tensors, config, source)
    ours |= lstm_tensors(stack, "", config.lstm.num_layers, config.lstm.has_projection, source)
    kind = " and ".join(n for n, d in (("words", words), ("characters", characters)) if d)
    found = f"ELMoForManyLangs folder that reads {kind} (configuration from {origin})"
    return Checkpoint(config=config, tensors=ours, found=found, characters=characters, words=words)


def _settings(folder: Path) -> tuple[dict[str, Any], str]:
    """The model's configuration: at config_path, or its basename here, or the published one."""
    outer = read_json(folder / "config.json")
    if "token_embedder" in outer:
        return outer, "config.json"
    named = str(outer.get("config_path", ""))
    # The path is the authors' own, absolute; only its last part can be trusted to mean something.
    for name in (named.rsplit("/", 1)[-1], PureWindowsPath(named).name):
        if name and (folder / name).is_file() and name != "config.json":
            return read_json(folder / name), name
    return _PUBLISHED, "the published models, since the folder has none"


def _config(
    encoder: Mapping[str, Any],
    embedder: Mapping[str, Any],
    words: tuple[str, ...] | None,
    characters: tuple[str, ...] | None,
) -> ElmoConfig:
    max_characters = embedder.get("max_characters_per_token", 50)
    char_cnn = None
    if characters is not None:
        char_cnn = CharCnnConfig(
            filters=tuple((width, number) for width, number in embedder["filters"]),
            embedding_dim=embedder["char_dim"],
            num_characters=len(characters),
            max_characters=max_characters,
            activation=embedder["activation"],
            num_highways=embedder["n_highway"],
            inventory="unicode",
        )
    return ElmoConfig(
        lstm=LstmConfig(
            cell_dim=encoder["dim"],
            projection_dim=encoder["projection_dim"],
            num_layers=encoder["n_layers"],
            cell_clip=encoder.get("cell_clip"),
            proj_clip=encoder.get("proj_clip"),
            forget_bias=0.0,
        ),
        char_cnn=char_cnn,
        words=WordConfig(len(words), embedder["word_dim"]) if words is not None else None,
        token_projection=True,
        text=TextConfig("whitespace", "<bos>", "<eos>", "<oov>", max_characters - 2),
    )


def _encoder_tensors(
    tensors: Mapping[str, Tensor], config: ElmoConfig, source: str
) -> dict[str, Tensor]:
    ours: dict[str, Tensor] = {}
    if config.words is not None:
        embedding = pick(tensors, "word_emb_layer.embedding.weight", source)
        ours["token_encoder.word_embedding.weight"] = embedding
    if config.char_cnn is not None:
        embedding = pick(tensors, "char_emb_layer.embedding.weight", source)
        ours["token_encoder.char_cnn.embedding.weight"] = embedding
        for i in range(len(config.char_cnn.filters)):
            for part in ("weight", "bias"):
                theirs = pick(tensors, f"convolutions.{i}.{part}", source)
                ours[f"token_encoder.char_cnn.convolutions.{i}.{part}"] = theirs
        number = config.char_cnn.num_highways
        ours |= highway_tensors(tensors, "highways._layers.", number, source)
    for part in ("weight", "bias"):
        ours[f"token_encoder.projection.{part}"] = pick(tensors, f"projection.{part}", source)
    return ours


def _dictionary(path: Path) -> tuple[str, ...]:
    """`item<TAB>id` lines as a tuple in the order of ids. A line with one field is U+3000's."""
    if not path.is_file():
        raise ElmoxError(f"{path} does not exist, but the model's configuration asks for it")
    items: dict[int, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.strip().split("\t")
        item = "\u3000" if len(fields) == 1 else fields[0]
        if not fields[-1].isdecimal():
            raise ElmoxError(f"{path}, line {number}: {line!r}, expected item<TAB>id")
        items[int(fields[-1])] = item
    if sorted(items) != list(range(len(items))):
        raise ElmoxError(f"{path}: its ids are not 0 to {len(items) - 1}")
    return tuple(items[index] for index in range(len(items)))
