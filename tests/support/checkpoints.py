"""Writers of tiny random checkpoints in every legacy container, for the tests.

`write_ai2`, `write_nlpl_zip` and `write_allennlp_archive` draw their arrays first and in one order,
so generators with the same seed give the same model in three containers: read the first with the
oracle and you know what the others must give.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import h5py
import numpy as np
from checkpoint_parts import (
    Arrays,
    Clip,
    Options,
    ai2_arrays,
    lstm_arrays,
    normal,
    options_strategy,
    random_options,
    write_hdf5,
    write_json,
    write_vocabulary,
)
from checkpoints_allennlp import allennlp_arrays, write_allennlp_archive
from checkpoints_many_langs import write_many_langs

__all__ = [
    "VOCABULARY",
    "Arrays",
    "Clip",
    "Options",
    "ai2_arrays",
    "allennlp_arrays",
    "options_strategy",
    "random_options",
    "write_ai2",
    "write_allennlp_archive",
    "write_many_langs",
    "write_nlpl_zip",
    "write_token_file",
    "write_word_model",
]

# The special words lie in the middle on purpose: no reader may assume where they are.
VOCABULARY = ("the", "</S>", "cat", "<S>", ".", "naïve", "<UNK>", "sat", "天", "😀", "The")


def write_ai2(
    directory: Path,
    options: Options,
    rng: np.random.Generator,
    *,
    char_rows: Literal[261, 262] = 261,
    std_scale: float = 1.0,
    single_cell_names: bool = False,
) -> Path:
    """Writes weights.hdf5 and options.json.

    Args:
        directory: where; made if it is missing.
        options: see `random_options`.
        rng: source of the weights.
        char_rows: 261 as in published files, or 262 with the zero row of the padding token first.
        std_scale: multiplies every weight matrix.
        single_cell_names: name the cells of a one-layer model as bilm-tf's own dump does, without
            MultiRNNCell/Cell0.

    Returns:
        The path of weights.hdf5.
    """
    directory.mkdir(parents=True, exist_ok=True)
    arrays = ai2_arrays(options, rng, std_scale)
    if char_rows == 262:
        zero_row = np.zeros_like(arrays["char_embed"][:1])
        arrays["char_embed"] = np.concatenate([zero_row, arrays["char_embed"]])
    if single_cell_names:
        assert options["lstm"]["n_layers"] == 1
        arrays = {name.replace("MultiRNNCell/Cell0/", ""): a for name, a in arrays.items()}
    write_json(directory / "options.json", options)
    return write_hdf5(directory / "weights.hdf5", arrays)


def write_word_model(
    directory: Path,
    options: Options,
    rng: np.random.Generator,
    *,
    vocabulary: Sequence[str] = VOCABULARY,
) -> Path:
    """Writes a word-vocabulary model: weights.hdf5, options.json without char_cnn, vocab.txt.

    Returns:
        The path of weights.hdf5.
    """
    directory.mkdir(parents=True, exist_ok=True)
    p = options["lstm"]["projection_dim"]
    arrays = {"embedding": normal(rng, (len(vocabulary), p))} | lstm_arrays(options, rng)
    word_options = {name: value for name, value in options.items() if name != "char_cnn"}
    write_json(directory / "options.json", word_options | {"n_tokens_vocab": len(vocabulary)})
    write_vocabulary(directory / "vocab.txt", vocabulary)
    return write_hdf5(directory / "weights.hdf5", arrays)


def write_token_file(
    directory: Path,
    projection_dim: int,
    rng: np.random.Generator,
    *,
    vocabulary: Sequence[str] = VOCABULARY,
) -> Path:
    """Writes a cached token file and its vocab.txt.

    The vectors are random, not those of some character encoder, so that a test sees which was used.

    Returns:
        The path of the HDF5 file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_vocabulary(directory / "vocab.txt", vocabulary)
    vectors = normal(rng, (len(vocabulary), projection_dim))
    return write_hdf5(directory / "token_embeddings.hdf5", {"embedding": vectors})


def write_nlpl_zip(
    directory: Path,
    options: Options,
    rng: np.random.Generator,
    *,
    vocabulary: Sequence[str] = VOCABULARY,
) -> Path:
    """Writes a model as vectors.nlpl.eu packs it.

    Returns:
        The path of the zip file.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        for name, array in ai2_arrays(options, rng).items():
            file.create_dataset(name, data=array)
    names = ("options.json", "meta.json", "model.hdf5", "vocab.txt")
    meta = {
        "algorithm": {"id": 6, "name": "Embeddings from Language Models (ELMo)"},
        "contents": [{"filename": name} for name in names],
        "dimensions": options["lstm"]["dim"],
    }
    path = directory / "225.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("options.json", json.dumps(options))
        archive.writestr("meta.json", json.dumps(meta))
        archive.writestr("model.hdf5", weights.getvalue())
        archive.writestr("vocab.txt", "".join(f"{word}\n" for word in vocabulary))
    return path
