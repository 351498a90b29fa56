"""Writer of tiny random ELMoForManyLangs folders, for the tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from checkpoint_parts import Arrays, normal, write_json

Kind = Literal["char", "word_char", "word"]

SPECIALS = ("<oov>", "<bos>", "<eos>", "<pad>")
# U+3000 is written as a line with an empty item, as whitespace was in the published dictionaries.
CHARACTERS = (*"abcdefghijklmnopqrstuvwxyzISTN.,-ïé今天好😀<>/", "\u3000")
WORDS = ("the", "cat", "sat", ".", "天", "naïve", "😀")


def write_many_langs(
    directory: Path,
    kind: Kind,
    rng: np.random.Generator,
    *,
    filters: Sequence[tuple[int, int]] = ((1, 3), (2, 4), (3, 5)),
    n_highway: int = 2,
    activation: str = "relu",
    max_characters: int = 50,
    projection_dim: int = 6,
    dim: int = 10,
    n_layers: int = 2,
    clip: float | None = 3.0,
    config_path: str = "/users/someone/configs/cnn_tiny.json",
) -> Path:
    """Writes a folder as the published models are: two JSON files, dictionaries and pickles.

    Args:
        directory: where; made if it is missing.
        kind: "char", "word_char" or "word".
        rng: source of the weights.
        filters: (width, count) pairs.
        n_highway: number of highways, after the convolutions.
        activation: "relu" or "tanh".
        max_characters: M.
        projection_dim: p.
        dim: c; there is a projection even where it equals p.
        n_layers: LSTM layers.
        clip: of cells and of projections.
        config_path: the path in config.json; the file itself is in the folder, under its last part.

    Returns:
        The folder.
    """
    directory.mkdir(parents=True, exist_ok=True)
    has_chars, has_words = "char" in kind, "word" in kind
    config: dict[str, Any] = {
        "encoder": {
            "name": "elmo",
            "projection_dim": projection_dim,
            "cell_clip": clip,
            "proj_clip": clip,
            "dim": dim,
            "n_layers": n_layers,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": activation,
            "filters": [list(pair) for pair in filters],
            "n_highway": n_highway,
            "word_dim": 4 if has_words else 0,
            "char_dim": 3 if has_chars else 0,
            "max_characters_per_token": max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8},
        "dropout": 0.1,
    }
    write_json(directory / "config.json", {"config_path": config_path, "max_sent_len": 20})
    write_json(directory / Path(config_path).name, config)
    if has_chars:
        write_dictionary(directory / "char.dic", (*SPECIALS, "<bow>", "<eow>", *CHARACTERS))
    if has_words:
        write_dictionary(directory / "word.dic", (*SPECIALS, *WORDS))
    save(directory / "token_embedder.pkl", token_arrays(config, rng))
    save(directory / "encoder.pkl", encoder_arrays(config, rng))
    return directory


def token_arrays(config: dict[str, Any], rng: np.random.Generator) -> Arrays:
    """The token embedder's state dict."""
    embedder, p = config["token_embedder"], config["encoder"]["projection_dim"]
    char_dim, word_dim = embedder["char_dim"], embedder["word_dim"]
    arrays: Arrays = {}
    size = word_dim
    if word_dim:
        rows = len(SPECIALS) + len(WORDS)
        arrays["word_emb_layer.embedding.weight"] = normal(rng, (rows, word_dim))
    if char_dim:
        rows = len(SPECIALS) + 2 + len(CHARACTERS)
        arrays["char_emb_layer.embedding.weight"] = normal(rng, (rows, char_dim))
        for k, (width, n) in enumerate(embedder["filters"]):
            std = 1 / np.sqrt(width * char_dim)
            arrays[f"convolutions.{k}.weight"] = normal(rng, (n, char_dim, width), std)
            arrays[f"convolutions.{k}.bias"] = normal(rng, (n,), 0.1)
        count = sum(n for _, n in embedder["filters"])
        for k in range(embedder["n_highway"]):
            std = 1 / np.sqrt(count)
            arrays[f"highways._layers.{k}.weight"] = normal(rng, (2 * count, count), std)
            arrays[f"highways._layers.{k}.bias"] = normal(rng, (2 * count,), 0.5)
        size += count
    arrays["projection.weight"] = normal(rng, (p, size), 1 / np.sqrt(size))
    arrays["projection.bias"] = normal(rng, (p,), 0.1)
    return arrays


def encoder_arrays(config: dict[str, Any], rng: np.random.Generator) -> Arrays:
    """The LSTM stacks' state dict."""
    p, c = config["encoder"]["projection_dim"], config["encoder"]["dim"]
    arrays: Arrays = {}
    for layer in range(config["encoder"]["n_layers"]):
        for direction in ("forward", "backward"):
            prefix = f"{direction}_layer_{layer}"
            std = 1 / np.sqrt(2 * p)
            arrays[f"{prefix}.input_linearity.weight"] = normal(rng, (4 * c, p), std)
            arrays[f"{prefix}.state_linearity.weight"] = normal(rng, (4 * c, p), std)
            arrays[f"{prefix}.state_linearity.bias"] = normal(rng, (4 * c,), 0.5)
            arrays[f"{prefix}.state_projection.weight"] = normal(rng, (p, c), 1 / np.sqrt(c))
    return arrays


def write_dictionary(path: Path, items: Sequence[str]) -> None:
    """Writes a .dic file: item, tab, id."""
    lines = [f"{item.strip()}\t{index}\n" for index, item in enumerate(items)]
    path.write_text("".join(lines), encoding="utf-8")


def save(path: Path, arrays: Arrays) -> None:
    """Writes a state dict in torch's old pickle format, which the published models have."""
    import torch

    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
