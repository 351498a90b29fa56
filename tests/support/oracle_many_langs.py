"""ELMoForManyLangs in plain NumPy: its token encoder and its folder, for the LSTMs of oracle.py.

The folder holds config.json (which names a second JSON file with the architecture), char.dic,
word.dic and two torch state dicts. Layers and state work as in oracle.py; skip connections are
always on, and there is always a projection, of [word embedding ; highway output].
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from oracle import Affine, Array, Cell, Filter, OracleWeights, char_cnn, relu, sigmoid


@dataclass(frozen=True)
class CodePointEncoder:
    """A word embedding, code points through a CNN, or both side by side; then a projection."""

    max_characters: int
    words: tuple[dict[str, int], Array] | None  # word.dic and its (V, w) table
    chars: tuple[dict[str, int], Array] | None  # char.dic and its (C, e) table
    filters: list[Filter]
    activation: str
    highways: list[
        tuple[Affine, Affine]
    ]  # (non-linear part, gate): first and second half of the file's
    projection: Affine

    def __call__(self, word: str) -> Array:
        """The (p,) vector of a word."""
        word = word[: self.max_characters - 2]
        parts = []
        if self.words is not None:
            ids, table = self.words
            parts.append(table[ids.get(word, ids["<oov>"])])
        if self.chars is not None:
            x = char_cnn(self.chars[1][self.code_point_ids(word)], self.filters, self.activation)
            for nonlinear, gate in self.highways:
                g = sigmoid(gate(x))
                x = g * x + (1.0 - g) * relu(nonlinear(x))
            parts.append(x)
        return self.projection(np.concatenate(parts))

    def code_point_ids(self, word: str) -> list[int]:
        """The M ids of a truncated word. <eow> starts it and <bow> ends it: so it was trained."""
        assert self.chars is not None
        ids = self.chars[0]
        if word in ("<bos>", "<eos>"):
            middle = [ids[word]]
        else:
            middle = [ids.get(char, ids["<oov>"]) for char in word]
        spelled = [ids["<eow>"], *middle, ids["<bow>"]]
        return spelled + [ids["<pad>"]] * (self.max_characters - len(spelled))


def read_many_langs(directory: Path) -> OracleWeights:
    """Reads an ELMoForManyLangs folder (char only, word and char, word only)."""
    config_path = Path(json.loads((directory / "config.json").read_text("utf-8"))["config_path"])
    config = json.loads((directory / config_path.name).read_text("utf-8"))
    embedder, lstm = config["token_embedder"], config["encoder"]
    token = read_pickle(directory / "token_embedder.pkl")
    has_chars, has_words = embedder["char_dim"] > 0, embedder["word_dim"] > 0

    def linear(name: str) -> Affine:
        return Affine(token[f"{name}.weight"].T, token[f"{name}.bias"])

    highways = []
    for k in range(embedder["n_highway"] if has_chars else 0):
        both = linear(f"highways._layers.{k}")
        halves = zip(np.split(both.weight, 2, axis=1), np.split(both.bias, 2), strict=True)
        nonlinear, gate = (Affine(weight, bias) for weight, bias in halves)
        highways.append((nonlinear, gate))
    encoder = CodePointEncoder(
        max_characters=embedder["max_characters_per_token"],
        words=(read_dictionary(directory / "word.dic"), token["word_emb_layer.embedding.weight"])
        if has_words
        else None,
        chars=(read_dictionary(directory / "char.dic"), token["char_emb_layer.embedding.weight"])
        if has_chars
        else None,
        filters=[
            Filter(
                token[f"convolutions.{k}.weight"].transpose(2, 1, 0),
                token[f"convolutions.{k}.bias"],
            )
            for k in range(len(embedder["filters"]) if has_chars else 0)
        ],
        activation=embedder["activation"],
        highways=highways,
        projection=linear("projection"),
    )
    stacks = read_pickle(directory / "encoder.pkl")
    forward, backward = (
        [torch_cell(stacks, f"{name}_layer_{layer}") for layer in range(lstm["n_layers"])]
        for name in ("forward", "backward")
    )
    return OracleWeights(
        encoder=encoder,
        cells=(forward, backward),
        cell_clip=lstm["cell_clip"],
        proj_clip=lstm["proj_clip"],
        skip=True,
        boundaries=("<bos>", "<eos>"),
    )


def torch_cell(arrays: dict[str, Array], prefix: str) -> Cell:
    """An LSTM layer in torch's gate order i, f, g, o, nothing to add to its bias."""
    weight = np.concatenate(
        [
            arrays[f"{prefix}.input_linearity.weight"].T,
            arrays[f"{prefix}.state_linearity.weight"].T,
        ]
    )
    w = np.split(weight, 4, axis=1)
    b = np.split(arrays[f"{prefix}.state_linearity.bias"], 4)
    return Cell(
        i=Affine(w[0], b[0]),
        f=Affine(w[1], b[1]),
        j=Affine(w[2], b[2]),
        o=Affine(w[3], b[3]),
        projection=arrays[f"{prefix}.state_projection.weight"].T,
    )


def read_dictionary(path: Path) -> dict[str, int]:
    """A .dic file: item, tab, id; whitespace items were stripped away and stand for U+3000."""
    items = {}
    for line in path.read_text("utf-8").split("\n"):
        if line.strip():
            *item, number = line.strip().split("\t")
            items[item[0] if item else "\u3000"] = int(number)
    return items


def read_pickle(path: Path) -> dict[str, Array]:
    """A torch state dict as float64 arrays."""
    import torch

    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.numpy().astype(np.float64) for name, tensor in tensors.items()}
