"""AI2's weight files (bilm-tf HDF5), both ways: names, transposes, gate order.

    char_embed (261, e)                 CNN/W_cnn_{i} (1, w, e, n)      CNN/b_cnn_{i} (n)
    CNN_high_{k}/{W,b}_{carry,transform}                                CNN_proj/{W,b}_proj
    RNN_{d}/RNN/MultiRNNCell/Cell{l}/LSTMCell/{W_0, B, W_P_0}           embedding (V, p)

Everything is stored for `x @ W`. The gates are in the order input, candidate, forget, output; the
rows of W_0 are the input's, then the recurrent state's; the forget gate's constant 1 is not in the
file.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmox.config import NUM_BYTE_CHARACTERS, ElmoConfig
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.io.files import to_json, write_together
from elmox.model.checkpoint import Checkpoint
from elmox.pretrained.ai2_softmax import ai2_softmax_files
from elmox.pretrained.hdf5_arrays import (
    Array,
    ArrayFile,
    Read,
    array_reader,
    open_hdf5,
    write_hdf5,
)
from elmox.pretrained.options import options_from_config, word_config
from elmox.text.vocab import Vocab, vocab_file

_GATES_FROM_FILE = [0, 2, 3, 1]  # i, j, f, o -> input, forget, output, candidate
_GATES_TO_FILE = [0, 3, 1, 2]


def read_ai2(
    file: ArrayFile,
    config: ElmoConfig,
    options_source: str,
    vocab: Vocab | None = None,
    token_embeddings: Path | None = None,
) -> Checkpoint:
    """Read the arrays of an open file.

    Args:
        file: the weights.
        config: the architecture, from its options file (`config_from_options`).
        options_source: that file's name, for error messages.
        vocab: the input vocabulary of a word model or of `token_embeddings`.
        token_embeddings: bilm-tf's cached token vectors, read instead of the character encoder.

    Returns:
        The model; its description only says where its words are from.
    """
    tensors: dict[str, Tensor] = {}
    description = ""
    read = array_reader(file, options_source)
    if config.char_cnn is None and "char_embed" in file:
        raise ElmoxError(
            f"{file.path} has char_embed, so it spells words, but {options_source} lacks char_cnn"
        )
    _refuse_more(file, config, options_source)
    if token_embeddings is not None or config.char_cnn is None:
        with (
            nullcontext(file) if token_embeddings is None else open_hdf5(token_embeddings) as other
        ):
            embedding = _read_embedding(other, config, vocab)
            description += f", words by id from {other.path.name} ({len(embedding)} words)"
        config = word_config(config, len(embedding))
        tensors["token_encoder.word_embedding.weight"] = torch.from_numpy(embedding)
    else:
        tensors |= _read_char_cnn(file, read, config)
    for layer in range(config.lstm.num_layers):
        tensors |= _read_lstm(file, read, config, layer)
    words = vocab.words if vocab is not None and config.words is not None else None
    return Checkpoint(config=config, tensors=tensors, description=description, words=words)


def write_ai2(
    checkpoint: Checkpoint, weights: Path, force: bool = False, softmax: bool = True
) -> Path:
    """Write a weight file and its options file, so that old tools can read an elmox model.

    Args:
        checkpoint: a model that spells bytes or reads word ids.
        weights: the file to write. NAME_options.json is written next to it, for word models also
            NAME_vocab.txt, for models with a softmax NAME_softmax.hdf5 and NAME_vocab.txt.
        force: replace existing files.
        softmax: write the model's softmax, if it has one.

    Returns:
        The options file.
    """
    if not softmax:
        checkpoint = replace(checkpoint, softmax=None)
    config = checkpoint.config
    spells_bytes = config.char_cnn is not None and config.char_cnn.inventory == "bytes"
    reads_words = config.char_cnn is None and not config.token_projection
    if not (reads_words or (spells_bytes and config.words is None)):
        raise ElmoxError(
            "AI2's format is for models that spell words in UTF-8 bytes, or look them up without a "
            "projection; this one is ELMoForManyLangs': write a native directory instead"
        )
    arrays = _ai2_arrays(checkpoint.tensors, config)
    options = weights.with_name(f"{weights.stem}_options.json")
    contents: dict[Path, bytes | Callable[[Path], None]] = {
        options: to_json(options_from_config(config))
    }
    vocab = weights.with_name(f"{weights.stem}_vocab.txt")
    if checkpoint.words is not None:
        contents[vocab] = vocab_file(checkpoint.words)
    softmax_path = weights.with_name(f"{weights.stem}_softmax.hdf5")
    if checkpoint.softmax is not None:
        if checkpoint.words not in (None, checkpoint.softmax.vocab):
            raise ArgumentError(
                "AI2's word models predict the words that they read, this one predicts others: "
                "leave its softmax out ({}), or write a native directory instead",
                Argument("softmax", False),
            )
        contents |= ai2_softmax_files(checkpoint.softmax, softmax_path, vocab)
    obsolete = [softmax_path] if checkpoint.softmax is None else []
    write_together(contents | {weights: lambda path: write_hdf5(path, arrays)}, force, obsolete)
    return options


def _read_embedding(file: ArrayFile, config: ElmoConfig, vocab: Vocab | None) -> Array:
    if vocab is None:
        raise ArgumentError(
            "{} contains vectors by word id: give the vocabulary they belong to with {}",
            file.path,
            Argument("vocab", "FILE"),
        )
    for word in (config.text.begin, config.text.end):
        if word not in vocab:
            raise ElmoxError(f"{vocab.source} lacks {word}, which bounds every sentence")
    read = array_reader(file, vocab.source)
    shape = (len(vocab), config.lstm.projection_dim)
    return read("embedding", shape, "(words of the vocabulary, projection_dim)")


def _read_char_cnn(file: ArrayFile, read: Read, config: ElmoConfig) -> dict[str, Tensor]:
    char_cnn = config.char_cnn
    assert char_cnn is not None
    e, f, p = char_cnn.embedding_dim, char_cnn.num_filters, config.lstm.projection_dim
    # 261 rows as trained, 262 with the padding token's row of zeros in front. The options file may
    # have either number for either array.
    shape = file.shape("char_embed") if "char_embed" in file else None
    rows = NUM_BYTE_CHARACTERS - 1 + (shape is not None and shape[:1] == (NUM_BYTE_CHARACTERS,))
    embedding = read("char_embed", (rows, e), "(261 or 262 characters, char_cnn.embedding.dim)")
    if rows < NUM_BYTE_CHARACTERS:
        embedding = np.concatenate([np.zeros((1, e), np.float32), embedding])
    arrays = {"char_cnn.embedding.weight": embedding}
    for i, (width, count) in enumerate(char_cnn.filters):
        kernel = read(f"CNN/W_cnn_{i}", (1, width, e, count), "(1, width, embedding.dim, filters)")
        arrays[f"char_cnn.convolutions.{i}.weight"] = kernel[0].transpose(2, 1, 0)
        arrays[f"char_cnn.convolutions.{i}.bias"] = read(f"CNN/b_cnn_{i}", (count,), "(filters,)")
    for k in range(char_cnn.num_highways):
        for part in ("carry", "transform"):
            weight = read(f"CNN_high_{k}/W_{part}", (f, f), "(all filters, all filters)")
            arrays[f"highways.{k}.{part}.weight"] = weight.T
            bias = read(f"CNN_high_{k}/b_{part}", (f,), "(all filters,)")
            arrays[f"highways.{k}.{part}.bias"] = bias
    if config.token_projection:
        weight = read("CNN_proj/W_proj", (f, p), "(all filters, lstm.projection_dim)")
        arrays["projection.weight"] = weight.T
        arrays["projection.bias"] = read("CNN_proj/b_proj", (p,), "(lstm.projection_dim,)")
    return {f"token_encoder.{name}": _tensor(array) for name, array in arrays.items()}


def _read_lstm(file: ArrayFile, read: Read, config: ElmoConfig, layer: int) -> dict[str, Tensor]:
    p, c = config.lstm.projection_dim, config.lstm.cell_dim
    parts: dict[str, list[Array]] = {
        "input_weight": [], "recurrent_weight": [], "bias": [], "projection": []
    }  # fmt: skip
    for direction in range(config.lstm.num_directions):
        cell = _cell_name(direction, layer)
        alone = f"RNN_{direction}/RNN/LSTMCell"  # one-layer models have no wrapper
        if cell not in file and config.lstm.num_layers == 1 and alone in file:
            cell = alone
        kernel = read(f"{cell}/W_0", (2 * p, 4 * c), "(2 x lstm.projection_dim, 4 x lstm.dim)")
        kernel = _regate(kernel, _GATES_FROM_FILE)
        parts["input_weight"].append(kernel[:p].T)
        parts["recurrent_weight"].append(kernel[p:].T)
        bias = read(f"{cell}/B", (4 * c,), "(4 x lstm.dim,)")
        parts["bias"].append(_regate(bias, _GATES_FROM_FILE))
        if config.lstm.has_projection:
            projection = read(f"{cell}/W_P_0", (c, p), "(lstm.dim, lstm.projection_dim)")
            parts["projection"].append(projection.T)
    return {
        f"lstm.{layer}.{name}": _tensor(np.stack(arrays))
        for name, arrays in parts.items()
        if arrays
    }


def _ai2_arrays(tensors: Mapping[str, Tensor], config: ElmoConfig) -> dict[str, Array]:
    """Return our tensors under AI2's names: the inverse of the readers above."""
    ours = {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
    arrays: dict[str, Array] = {}
    if config.char_cnn is None:
        arrays["embedding"] = ours["token_encoder.word_embedding.weight"]
    else:
        prefix = "token_encoder."
        arrays["char_embed"] = ours[f"{prefix}char_cnn.embedding.weight"][1:]
        for i in range(len(config.char_cnn.filters)):
            weight = ours[f"{prefix}char_cnn.convolutions.{i}.weight"]
            arrays[f"CNN/W_cnn_{i}"] = weight.transpose(2, 1, 0)[None]
            arrays[f"CNN/b_cnn_{i}"] = ours[f"{prefix}char_cnn.convolutions.{i}.bias"]
        for k in range(config.char_cnn.num_highways):
            for part in ("carry", "transform"):
                weight = ours[f"{prefix}highways.{k}.{part}.weight"]
                arrays[f"CNN_high_{k}/W_{part}"] = weight.T
                arrays[f"CNN_high_{k}/b_{part}"] = ours[f"{prefix}highways.{k}.{part}.bias"]
        if config.token_projection:
            arrays["CNN_proj/W_proj"] = ours[f"{prefix}projection.weight"].T
            arrays["CNN_proj/b_proj"] = ours[f"{prefix}projection.bias"]
    for layer in range(config.lstm.num_layers):
        for direction in range(config.lstm.num_directions):
            arrays |= _ai2_cell(ours, config, layer, direction)
    return arrays


def _ai2_cell(
    ours: Mapping[str, Array], config: ElmoConfig, layer: int, direction: int
) -> dict[str, Array]:
    """Return one LSTM cell under AI2's names."""
    cell, prefix = _cell_name(direction, layer), f"lstm.{layer}."
    c = config.lstm.cell_dim
    weights = [ours[prefix + name][direction].T for name in ("input_weight", "recurrent_weight")]
    bias = ours[f"{prefix}bias"][direction].copy()
    if config.lstm.forget_bias != 1.0:
        bias[c : 2 * c] += np.float32(config.lstm.forget_bias - 1.0)
    arrays = {
        f"{cell}/W_0": _regate(np.concatenate(weights), _GATES_TO_FILE),
        f"{cell}/B": _regate(bias, _GATES_TO_FILE),
    }
    if config.lstm.has_projection:
        arrays[f"{cell}/W_P_0"] = ours[f"{prefix}projection"][direction].T
    return arrays


def _refuse_more(file: ArrayFile, config: ElmoConfig, source: str) -> None:
    """Refuse a file with parts that the options do not mention."""
    lstm = config.lstm
    surplus = {_cell_name(0, lstm.num_layers): f"lstm.n_layers = {lstm.num_layers}"}
    if not lstm.bidirectional:
        surplus["RNN_1"] = "bidirectional = false"
    if not lstm.has_projection:
        reason = f"lstm.dim = lstm.projection_dim = {lstm.cell_dim}, nothing is left to project"
        surplus[f"{_cell_name(0, 0)}/W_P_0"] = reason
    if config.char_cnn is not None:
        banks, highways = len(config.char_cnn.filters), config.char_cnn.num_highways
        surplus[f"CNN/W_cnn_{banks}"] = f"char_cnn.filters lists {banks}"
        surplus[f"CNN_high_{highways}"] = f"char_cnn.n_highway = {highways}"
        if not config.token_projection:
            reason = f"the filters add up to lstm.projection_dim = {lstm.projection_dim}"
            surplus["CNN_proj"] = f"{reason}, nothing is left to project"
    for name, reason in surplus.items():
        if name in file:
            raise ElmoxError(f"{file.path} has {name}, but in {source} {reason}")


def _cell_name(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _regate(array: Array, order: list[int]) -> Array:
    """Reorder the four gate blocks along the last axis."""
    blocks = np.split(array, 4, axis=-1)
    return np.concatenate([blocks[i] for i in order], axis=-1)


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
