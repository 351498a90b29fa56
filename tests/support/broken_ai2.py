"""AI2 weights and options with one thing wrong each: files, arrays, options, the two together."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from broken import LFS_POINTER, Broken, cut, rng
from checkpoints import random_options, write_ai2, write_word_model

CELL = "RNN_0/RNN/MultiRNNCell/Cell"
ABSENT = object()


def truncated(folder: Path, share: float) -> Path:
    """A weight file that was cut off; the small shares leave no header, the large ones do."""
    return cut(write_ai2(folder, random_options(), rng()), share)


def edited(folder: Path, edit: Callable[[h5py.File], None]) -> Path:
    """A weight file with something changed in it."""
    weights = write_ai2(folder, random_options(), rng())
    with h5py.File(weights, "r+") as file:
        edit(file)
    return weights


def without(folder: Path, name: str) -> Path:
    """A weight file that lacks an array."""
    return edited(folder, lambda file: file.__delitem__(name))


def renamed(folder: Path, old: str, new: str) -> Path:
    """A weight file in which an array has another name."""
    return edited(folder, lambda file: file.move(old, new))


def replaced(folder: Path, name: str, value: Any) -> Path:
    """A weight file with something else instead of an array."""

    def edit(file: h5py.File) -> None:
        del file[name]
        file[name] = value

    return edited(folder, edit)


def make_group(file: h5py.File) -> None:
    """An edit: a group instead of an array."""
    del file["CNN/b_cnn_0"]
    file.create_group("CNN/b_cnn_0")


def poisoned(folder: Path, name: str, value: float) -> Path:
    """A weight file with one number that is none."""

    def edit(file: h5py.File) -> None:
        file[name][(-1,) * file[name].ndim] = value

    return edited(folder, edit)


def disagreeing(folder: Path, path: str, value: object) -> Path:
    """Weights of the usual options next to options with one other value (or without it)."""
    weights = write_ai2(folder, random_options(), rng())
    options: dict[str, Any] = json.loads((folder / "options.json").read_text())
    *parents, key = path.split(".")
    place = options
    for parent in parents:
        place = place[parent]
    if value is ABSENT:
        del place[key]
    else:
        place[key] = value
    (folder / "options.json").write_text(json.dumps(options))
    return weights


def options_text(folder: Path, content: bytes) -> Path:
    """Weights next to an options file with this content."""
    weights = write_ai2(folder, random_options(), rng())
    (folder / "options.json").write_bytes(content)
    return weights


def no_options(folder: Path) -> Path:
    """Weights alone."""
    weights = write_ai2(folder, random_options(), rng())
    (folder / "options.json").unlink()
    return weights


def needless_projection(folder: Path) -> Path:
    """LSTM projections in the file where the options leave nothing to project."""
    weights = write_ai2(folder, random_options(dim=6), rng())
    with h5py.File(weights, "r+") as file:
        file[f"{CELL}0/LSTMCell/W_P_0"] = np.eye(6, dtype=np.float32)
    return weights


def needless_token_projection(folder: Path) -> Path:
    """A token projection where the filters add up to the LSTMs' width."""
    weights = write_ai2(folder, random_options(projection_dim=15), rng())
    with h5py.File(weights, "r+") as file:
        file["CNN_proj/W_proj"] = np.eye(15, dtype=np.float32)
    return weights


def text_as_hdf5(folder: Path, text: str) -> Path:
    """A text file under the name of weights."""
    path = folder / "weights.hdf5"
    path.write_text(text)
    return path


def word_weights_with_spelling_options(folder: Path) -> Path:
    """A word model whose options ask for a character encoder."""
    weights = write_word_model(folder, random_options(), rng())
    (folder / "options.json").write_text(json.dumps(random_options()))
    return weights


def word_model(folder: Path, vocabulary: bytes | None) -> Path:
    """A word model next to another vocabulary, or none."""
    weights = write_word_model(folder, random_options(), rng())
    (folder / "vocab.txt").unlink()
    if vocabulary is not None:
        (folder / "vocab.txt").write_bytes(vocabulary)
    return weights


FILES = [
    *(
        Broken(f"hdf5 cut to {share}", partial(truncated, share=share), ("weights.hdf5", "cut"))
        for share in (0.01, 0.3, 0.6, 0.9, 0.9999)
    ),
    Broken("hdf5 of no bytes", partial(text_as_hdf5, text=""), ("weights.hdf5 is not an HDF5",)),
    Broken("hdf5 is text", partial(text_as_hdf5, text="hello\n"), ("weights.hdf5 is not an HDF5",)),
    Broken("hdf5 is a git-lfs pointer", partial(text_as_hdf5, text=LFS_POINTER), ("pointer",)),
    Broken(
        "no char_embed", partial(without, name="char_embed"), ("char_embed", "char_cnn.embedding")
    ),
    Broken(
        "no convolution",
        partial(without, name="CNN/W_cnn_1"),
        ("CNN/W_cnn_1", "(1, 2, 4, 5)", "options.json"),
    ),
    Broken(
        "no backward cell",
        partial(without, name="RNN_1"),
        ("RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0", "(12, 40)"),
    ),
    Broken("no bias", partial(without, name=f"{CELL}1/LSTMCell/B"), (f"{CELL}1/LSTMCell/B",)),
    Broken(
        "misnamed array",
        partial(renamed, old="CNN_proj/W_proj", new="CNN_proj/weights"),
        ("CNN_proj/W_proj", "(15, 6)"),
    ),
    Broken(
        "group for an array",
        partial(edited, edit=make_group),
        ("CNN/b_cnn_0", "group"),
    ),
    Broken("scalar", partial(replaced, name="char_embed", value=1.0), ("char_embed", "(261, 4)")),
    Broken(
        "empty dataset",
        partial(replaced, name="char_embed", value=h5py.Empty("f")),
        ("char_embed", "(261, 4)"),
    ),
    Broken(
        "text for numbers",
        partial(replaced, name="CNN/b_cnn_0", value=np.array([b"a"] * 4)),
        ("CNN/b_cnn_0", "numbers"),
    ),
    Broken(
        "wrong number of characters",
        partial(replaced, name="char_embed", value=np.zeros((260, 4), np.float32)),
        ("char_embed", "(260, 4)", "(261, 4)"),
    ),
    *(
        Broken(f"{value} in {name}", partial(poisoned, name=name, value=value), ("NaN", named))
        for value in (np.nan, np.inf, -np.inf)
        for name, named in (("char_embed", "embedding"), (f"{CELL}1/LSTMCell/B", "lstm.1.bias"))
    ),
    Broken("needless projection", needless_projection, ("W_P_0", "lstm.dim", "6")),
    Broken("needless token projection", needless_token_projection, ("CNN_proj", "15")),
    Broken("word weights, spelling options", word_weights_with_spelling_options, ("char_embed",)),
    Broken("word model without vocabulary", partial(word_model, vocabulary=None), ("vocab",)),
    Broken(
        "other vocabulary",
        partial(word_model, vocabulary=b"<S>\n</S>\n<UNK>\n"),
        ("embedding", "(11, 6)", "(3, 6)", "vocab.txt"),
    ),
    Broken(
        "vocabulary without boundaries",
        partial(word_model, vocabulary=b"a\nb\n"),
        ("vocab.txt lacks <S>",),
    ),
    Broken("empty vocabulary", partial(word_model, vocabulary=b""), ("vocab.txt holds no words",)),
    Broken(
        "vocabulary not UTF-8", partial(word_model, vocabulary=b"\xff\n"), ("vocab.txt", "UTF-8")
    ),
]

# Options that disagree with the weights: the array that the message names, and the options.
_DISAGREEMENTS: list[tuple[str, object, tuple[str, ...]]] = [
    ("lstm.dim", 11, (f"{CELL}0/LSTMCell/W_0", "(12, 40)", "(12, 44)", "lstm.dim")),
    ("lstm.dim", 6, (f"{CELL}0/LSTMCell/W_P_0", "lstm.dim = lstm.projection_dim = 6")),
    ("lstm.projection_dim", 7, ("CNN_proj/W_proj", "(15, 6)", "(15, 7)", "lstm.projection_dim")),
    ("lstm.projection_dim", 15, ("CNN_proj", "lstm.projection_dim = 15")),
    ("lstm.n_layers", 1, (f"{CELL}1/LSTMCell", "lstm.n_layers = 1")),
    ("lstm.n_layers", 3, (f"{CELL}2/LSTMCell/W_0", "(12, 40)", "options.json")),
    ("bidirectional", False, ("RNN_1", "bidirectional")),
    ("char_cnn.embedding.dim", 5, ("char_embed", "(261, 4)", "(261, 5)", "embedding.dim")),
    ("char_cnn.filters", [[1, 4], [2, 4], [3, 6]], ("CNN/W_cnn_1", "(1, 2, 4, 4)")),
    ("char_cnn.filters", [[1, 4], [3, 5], [3, 6]], ("CNN/W_cnn_1", "(1, 3, 4, 5)")),
    ("char_cnn.filters", [[1, 4], [2, 5], [3, 6], [4, 7]], ("CNN/W_cnn_3", "(1, 4, 4, 7)")),
    ("char_cnn.filters", [[1, 4], [2, 5]], ("CNN/W_cnn_2", "2")),
    ("char_cnn.n_highway", 1, ("CNN_high_1", "char_cnn.n_highway = 1")),
    ("char_cnn.n_highway", 0, ("CNN_high_0", "char_cnn.n_highway = 0")),
    ("char_cnn.n_highway", 3, ("CNN_high_2/W_carry", "(15, 15)")),
    ("char_cnn", ABSENT, ("char_embed", "char_cnn")),
    # Types and values.
    ("lstm.dim", "10", ("lstm.dim", "'10'", "int")),
    ("lstm.dim", 10.5, ("lstm.dim", "10.5", "int")),
    ("lstm.dim", True, ("lstm.dim", "True", "int")),
    ("lstm.dim", -10, ("dim", "-10")),
    ("lstm.dim", 0, ("dim", "0")),
    ("lstm.n_layers", 0, ("num_layers", "0")),
    ("lstm.n_layers", [2], ("lstm.n_layers", "[2]")),
    ("lstm.cell_clip", "3", ("lstm.cell_clip", "'3'")),
    ("lstm.cell_clip", -3, ("cell_clip", "-3")),
    ("lstm.proj_clip", float("nan"), ("proj_clip", "nan")),
    ("lstm.use_skip_connections", 1, ("lstm.use_skip_connections", "1", "bool")),
    ("lstm", [1, 2], ("lstm.dim",)),
    ("lstm", ABSENT, ("lacks lstm.dim",)),
    ("lstm.dim", ABSENT, ("lacks lstm.dim",)),
    ("lstm.projection_dim", ABSENT, ("lacks lstm.projection_dim",)),
    ("char_cnn.filters", ABSENT, ("lacks char_cnn.filters",)),
    ("char_cnn.embedding", ABSENT, ("lacks char_cnn.embedding.dim",)),
    ("char_cnn.embedding", 4, ("lacks char_cnn.embedding.dim",)),
    ("char_cnn", None, ("lacks char_cnn.filters",)),
    ("char_cnn", "yes", ("lacks char_cnn.filters",)),
    ("char_cnn.filters", [], ("filters", "at least one")),
    ("char_cnn.filters", [[1]], ("char_cnn.filters", "[1]", "[width, count]")),
    ("char_cnn.filters", [[1, "a"]], ("char_cnn.filters", "[1, 'a']")),
    ("char_cnn.filters", 3, ("char_cnn.filters", "3", "list")),
    ("char_cnn.filters", [[0, 4]], ("filters", "(0, 4)", "positive")),
    ("char_cnn.filters", [[60, 4]], ("filters", "(60, 4)", "max_characters")),
    ("char_cnn.activation", "gelu", ("activation", "'gelu'", "relu")),
    ("char_cnn.activation", ["relu"], ("activation", "['relu']")),
    ("char_cnn.max_characters_per_token", 2, ("max_characters", "2")),
    ("char_cnn.projection_after_highway", False, ("projection_after_highway",)),
]

OPTIONS = [
    *(
        Broken(
            f"options: {path} {'absent' if value is ABSENT else value}",
            partial(disagreeing, path=path, value=value),
            (*message, "options.json"),
        )
        for path, value, message in _DISAGREEMENTS
    ),
    Broken("options missing", no_options, ("weights.hdf5", "options")),
    Broken("options empty", partial(options_text, content=b""), ("options.json is not JSON",)),
    Broken("options cut", partial(options_text, content=b'{"lstm": {'), ("options.json is not",)),
    Broken("options a list", partial(options_text, content=b"[]"), ("options.json", "list")),
    Broken("options a null", partial(options_text, content=b"null"), ("options.json", "NoneType")),
    Broken("options not UTF-8", partial(options_text, content=b"\xff"), ("options.json is not",)),
    Broken(
        "options nested too deep",
        partial(options_text, content=b"[" * 100_000),
        ("options.json is not JSON",),
    ),
    Broken(
        "options with a number of 5,000 digits",
        partial(options_text, content=b'{"lstm": ' + b"9" * 5000 + b"}"),
        ("options.json is not JSON",),
    ),
]
