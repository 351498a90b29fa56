"""ELMo as its specification defines it: a slow, plain NumPy forward pass in float64.

This is the judge of the tests. It shares no code with the package and uses no torch and no tricks:
one word, one filter window, one gate and one time step after the other. Whatever the package does
faster must give the same numbers as this file, which in turn must agree with the golden fixtures
(test_oracle.py). oracle_many_langs.py adds the ELMoForManyLangs token encoder and file format.

Shapes: T words, L layers, p projection size, c cell size, M character slots, e character embedding,
F = sum of the filters' counts, V vocabulary rows.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Character ids as they stand in a weight file; 0..255 are the UTF-8 bytes.
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, IN_WORD_PADDING = 256, 257, 258, 259, 260


def byte_ids(word: str, max_characters: int) -> list[int]:
    """Spells a word as the `max_characters` ids of inference: raw id + 1, because 0 is the mask."""
    if word == "<S>":
        middle = [BEGIN_SENTENCE]
    elif word == "</S>":
        middle = [END_SENTENCE]
    else:
        middle = list(word.encode("utf-8", errors="ignore")[: max_characters - 2])
    raw = [BEGIN_WORD, *middle, END_WORD]
    raw += [IN_WORD_PADDING] * (max_characters - len(raw))
    return [i + 1 for i in raw]


def sigmoid(x: Array) -> Array:
    """The logistic function; written with tanh so that no exponential overflows."""
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": relu, "tanh": np.tanh}


class Affine(NamedTuple):
    """x @ weight + bias."""

    weight: Array  # (in, out)
    bias: Array  # (out,)

    def __call__(self, x: Array) -> Array:
        return np.asarray(x @ self.weight + self.bias)


class Filter(NamedTuple):
    """The convolution filters of one width."""

    weight: Array  # (width, e, n)
    bias: Array  # (n,)


class Cell(NamedTuple):
    """One LSTM layer of one direction. Every gate reads [input ; h]; `f` includes the +1."""

    i: Affine  # (p + p, c)
    j: Affine
    f: Affine
    o: Affine
    projection: Array | None  # (c, p); None where c == p and the file has no projection


class State(NamedTuple):
    """The LSTM states of every row of a batch, as one value."""

    h: Array  # (rows, 2 directions, L, p)
    c: Array  # (rows, 2 directions, L, c)


def char_cnn(chars: Array, filters: Sequence[Filter], activation: str) -> Array:
    """One word's characters (M, e) to F numbers: convolve, maximum over the windows, activation."""
    pooled = []
    for weight, bias in filters:
        width, size, count = weight.shape
        starts = range(len(chars) - width + 1)
        windows = np.stack([chars[start : start + width].reshape(-1) for start in starts])
        convolved = windows @ weight.reshape(width * size, count) + bias  # (M - width + 1, n)
        pooled.append(ACTIVATIONS[activation](convolved.max(axis=0)))
    return np.concatenate(pooled)


class TokenEncoder(Protocol):
    """Map one word to its context-free vector."""

    def __call__(self, word: str) -> Array:
        """The (p,) vector of a word."""


@dataclass(frozen=True)
class ByteEncoder:
    """The AI2 token encoder: bytes, convolutions, highways, projection."""

    max_characters: int
    embedding: Array  # (262, e); row 0 belongs to the padding token
    filters: list[Filter]
    activation: str
    highways: list[tuple[Affine, Affine]]  # (carry, transform), the file's names
    projection: Affine | None

    def __call__(self, word: str) -> Array:
        """The (p,) vector of a word."""
        chars = self.embedding[byte_ids(word, self.max_characters)]
        x = char_cnn(chars, self.filters, self.activation)
        for carry, transform in self.highways:
            g = sigmoid(carry(x))
            x = g * relu(transform(x)) + (1.0 - g) * x
        return x if self.projection is None else self.projection(x)


@dataclass(frozen=True)
class WordTable:
    """One row per vocabulary word: a word-vocabulary model or a cached token file."""

    rows: dict[str, int]
    table: Array  # (V, p)

    def __call__(self, word: str) -> Array:
        """The (p,) vector of a word, that of <UNK> for a word outside the vocabulary."""
        return np.asarray(self.table[self.rows[word if word in self.rows else "<UNK>"]])


@dataclass(frozen=True)
class OracleWeights:
    """Everything a forward pass needs."""

    encoder: TokenEncoder
    cells: tuple[list[Cell], list[Cell]]  # forward, backward; one Cell per layer
    cell_clip: float | None
    proj_clip: float | None
    skip: bool
    boundaries: tuple[str, str] = ("<S>", "</S>")


def token_vectors(weights: OracleWeights, words: Sequence[str]) -> Array:
    """The context-free vectors of some words, (n, p)."""
    vectors = [weights.encoder(word) for word in words]
    return np.stack(vectors) if vectors else np.zeros((0, output_size(weights)))


def output_size(weights: OracleWeights) -> int:
    """p: a gate reads p inputs and p recurrent values."""
    return int(weights.cells[0][0].i.weight.shape[0]) // 2


def zero_state(weights: OracleWeights, rows: int) -> State:
    """The state of `rows` rows that have read nothing yet."""
    num_layers = len(weights.cells[0])
    cell_size = weights.cells[0][0].i.weight.shape[1]
    return State(
        h=np.zeros((rows, 2, num_layers, output_size(weights))),
        c=np.zeros((rows, 2, num_layers, cell_size)),
    )


def step(weights: OracleWeights, cell: Cell, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """One time step of one layer: the new h (p,) and c (c,)."""
    xh = np.concatenate([x, h])
    c = sigmoid(cell.f(xh)) * c + sigmoid(cell.i(xh)) * np.tanh(cell.j(xh))
    if weights.cell_clip is not None:
        c = np.clip(c, -weights.cell_clip, weights.cell_clip)
    m = sigmoid(cell.o(xh)) * np.tanh(c)
    if cell.projection is None:
        # TensorFlow's cell clips what its projection gives: without one, nothing.
        return m, c
    h = m @ cell.projection
    if weights.proj_clip is not None:
        h = np.clip(h, -weights.proj_clip, weights.proj_clip)
    return h, c


def run_stack(
    weights: OracleWeights, direction: int, inputs: Array, h: Array, c: Array
) -> tuple[list[Array], Array, Array]:
    """Runs one direction over a whole sentence, in the order in which `inputs` (T, p) come.

    Args:
        weights: the model.
        direction: 0 forward, 1 backward.
        inputs: the token vectors, already reversed for the backward stack.
        h: the row's hidden states at the start, (L, p).
        c: the row's cell states at the start, (L, c).

    Returns:
        Each layer's outputs (T, p), and the final h and c.
    """
    outputs, last_h, last_c = [], [], []
    for layer, cell in enumerate(weights.cells[direction]):
        layer_h, layer_c, steps = h[layer], c[layer], []
        for x in inputs:
            layer_h, layer_c = step(weights, cell, x, layer_h, layer_c)
            # The skip connection stays outside of the recurrence: the state never contains it.
            steps.append(layer_h + x if weights.skip and layer >= 1 else layer_h)
        inputs = np.stack(steps)
        outputs.append(inputs)
        last_h.append(layer_h)
        last_c.append(layer_c)
    return outputs, np.stack(last_h), np.stack(last_c)


def layers(
    weights: OracleWeights, sentences: Sequence[Sequence[str]], state: State | None = None
) -> tuple[list[Array], State]:
    """All layers of some sentences, each sentence alone.

    An empty sentence is run like any other (its row reads <S> </S>), so its row's state moves on.

    Args:
        weights: the model.
        sentences: one per row of the batch, without boundary tokens.
        state: what the previous call returned; rows it does not have start at zero.

    Returns:
        Per sentence (L+1, T, 2p) without the boundary positions, and the new state, in which rows
        beyond this batch keep what they had.
    """
    start = zero_state(weights, len(sentences)) if state is None else state
    missing = zero_state(weights, max(0, len(sentences) - len(start.h)))
    new = State(h=np.concatenate([start.h, missing.h]), c=np.concatenate([start.c, missing.c]))
    results = []
    for row, sentence in enumerate(sentences):
        begin, end = weights.boundaries
        tokens = token_vectors(weights, [begin, *sentence, end])
        forward, new.h[row, 0], new.c[row, 0] = run_stack(
            weights, 0, tokens, new.h[row, 0], new.c[row, 0]
        )
        backward, new.h[row, 1], new.c[row, 1] = run_stack(
            weights, 1, tokens[::-1], new.h[row, 1], new.c[row, 1]
        )
        stack = [np.concatenate([tokens, tokens], axis=1)]
        for ahead, behind in zip(forward, backward, strict=True):
            stack.append(np.concatenate([ahead, behind[::-1]], axis=1))
        results.append(np.stack(stack)[:, 1:-1])
    return results, new


def read_vocabulary(path: Path) -> dict[str, int]:
    """A vocabulary file, one word per line, as word -> row."""
    with path.open(encoding="utf-8") as file:
        return {line.strip(): row for row, line in enumerate(file)}


def read_word_table(hdf5: Path, vocabulary: Path) -> WordTable:
    """The `embedding` dataset of a word-vocabulary model or of a cached token file."""
    with h5py.File(hdf5) as file:
        table = np.asarray(file["embedding"], np.float64)
    rows = read_vocabulary(vocabulary)
    assert len(table) == max(rows.values()) + 1, "one row per line of the vocabulary"
    return WordTable(rows, table)


def read_byte_encoder(file: Any, options: dict[str, Any]) -> ByteEncoder:
    """The character arrays of an open AI2 weight file."""

    def array(name: str) -> Array:
        return np.asarray(file[name], np.float64)

    cnn = options["char_cnn"]
    embedding = array("char_embed")
    if len(embedding) == 261:
        embedding = np.concatenate([np.zeros((1, embedding.shape[1])), embedding])
    assert len(embedding) == 262
    count = sum(n for _, n in cnn["filters"])
    return ByteEncoder(
        max_characters=cnn["max_characters_per_token"],
        embedding=embedding,
        filters=[
            Filter(array(f"CNN/W_cnn_{k}")[0], array(f"CNN/b_cnn_{k}"))
            for k in range(len(cnn["filters"]))
        ],
        activation=cnn["activation"],
        highways=[
            (
                Affine(array(f"CNN_high_{k}/W_carry"), array(f"CNN_high_{k}/b_carry")),
                Affine(array(f"CNN_high_{k}/W_transform"), array(f"CNN_high_{k}/b_transform")),
            )
            for k in range(cnn.get("n_highway") or 0)
        ],
        projection=None
        if count == options["lstm"]["projection_dim"]
        else Affine(array("CNN_proj/W_proj"), array("CNN_proj/b_proj")),
    )


def read_ai2_cell(file: Any, direction: int, layer: int) -> Cell:
    """One LSTM layer of an open AI2 weight file: gates i, j, f, o; the +1 of f is not in it."""
    root = f"RNN_{direction}/RNN"
    # A model trained with a single layer has no MultiRNNCell around its cell.
    name = (
        f"{root}/LSTMCell"
        if f"{root}/LSTMCell" in file
        else f"{root}/MultiRNNCell/Cell{layer}/LSTMCell"
    )
    group = file[name]
    w = np.split(np.asarray(group["W_0"], np.float64), 4, axis=1)
    b = np.split(np.asarray(group["B"], np.float64), 4)
    return Cell(
        i=Affine(w[0], b[0]),
        j=Affine(w[1], b[1]),
        f=Affine(w[2], b[2] + 1.0),
        o=Affine(w[3], b[3]),
        projection=np.asarray(group["W_P_0"], np.float64) if "W_P_0" in group else None,
    )


def read_ai2(
    weights: Path,
    options: Path | None = None,
    *,
    vocabulary: Path | None = None,
    token_file: Path | None = None,
) -> OracleWeights:
    """Reads an AI2 / bilm-tf model.

    Args:
        weights: the HDF5 file.
        options: its options; options.json next to it by default.
        vocabulary: for a word-vocabulary model (options without char_cnn) or a `token_file`.
        token_file: a cached token file that takes the place of the character encoder.

    Returns:
        The model, ready for `layers`.
    """
    opts = json.loads((options or weights.with_name("options.json")).read_text("utf-8"))
    lstm = opts["lstm"]
    encoder: TokenEncoder
    with h5py.File(weights) as file:
        if token_file is not None or "char_cnn" not in opts:
            assert vocabulary is not None
            encoder = read_word_table(token_file or weights, vocabulary)
        else:
            encoder = read_byte_encoder(file, opts)
        forward, backward = (
            [read_ai2_cell(file, direction, layer) for layer in range(lstm["n_layers"])]
            for direction in range(2)
        )
    return OracleWeights(
        encoder=encoder,
        cells=(forward, backward),
        cell_clip=lstm.get("cell_clip"),
        proj_clip=lstm.get("proj_clip"),
        skip=bool(lstm.get("use_skip_connections")),
    )
