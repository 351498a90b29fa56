"""The ELMo inside an AllenNLP model: archive (model.tar.gz) or serialization directory.

The architecture follows from the shapes, except clips and activation. Those are in the options
file, which archives seldom contain. AllenNLP only ran models with residual connections and 50
character slots, and every released one has relu and clips of 3. Without an options file this is
assumed, and the description mentions it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

from torch import Tensor

from elmox.config import NUM_BYTE_CHARACTERS, CharCnnConfig, ElmoConfig, LstmConfig
from elmox.errors import ElmoxError
from elmox.io.files import read_json
from elmox.io.inputs import MAX_JSON_BYTES, read_whole
from elmox.model.checkpoint import Checkpoint
from elmox.model.layer_mix import Mix
from elmox.pretrained.options import config_from_options
from elmox.pretrained.torch_files import load_plain_tensors
from elmox.pretrained.torch_names import char_cnn_tensors, count, lstm_tensors, pick

WEIGHT_FILES = ("weights.th", "best.th")

_MARK = "_elmo_lstm._token_embedder._char_embedding_weights"


def read_allennlp_folder(folder: Path, options: Path | None) -> Checkpoint:
    """Read a serialization directory, or what an archive contains.

    Args:
        folder: a directory with one of `WEIGHT_FILES`.
        options: the biLM's options file; None to look for it in the folder.
    """
    weights = next(folder / name for name in WEIGHT_FILES if (folder / name).is_file())
    tensors = load_plain_tensors(weights, str(weights))
    options = options or _find_options(folder)
    return read_allennlp(tensors, None if options is None else read_json(options), str(folder))


def read_allennlp(
    tensors: Mapping[str, Tensor], options: Mapping[str, Any] | None, source: str
) -> Checkpoint:
    """Return the biLM and the scalar mixes of a model's state dict.

    Args:
        tensors: the state dict of the whole task model.
        options: the biLM's options file, if known.
        source: the archive, for error messages.
    """
    prefixes = sorted(name.removesuffix(_MARK) for name in tensors if name.endswith(_MARK))
    if not prefixes:
        raise ElmoxError(
            f"{source} is an AllenNLP model without ELMo: none of its {len(tensors)} tensors is "
            f"called ...{_MARK}"
        )
    prefix = prefixes[0]
    encoder, stack = f"{prefix}_elmo_lstm._token_embedder.", f"{prefix}_elmo_lstm._elmo_lstm."
    config = _config(tensors, encoder, stack, source)
    assumed = ""
    if options is None:
        assumed = "; without its options file relu, clips of 3 and 50 characters are assumed"
    else:
        config = _checked(config, config_from_options(options, source), source)
    assert config.char_cnn is not None
    convolution, highway = f"{encoder}char_conv_", f"{encoder}_highways._layers."
    p, f = config.lstm.projection_dim, config.char_cnn.num_filters
    ours = {
        "token_encoder.char_cnn.embedding.weight": tensors[prefix + _MARK],
        **char_cnn_tensors(tensors, convolution, highway, config.char_cnn, source),
        "token_encoder.projection.weight": pick(
            tensors, f"{encoder}_projection.weight", (p, f), source
        ),
        "token_encoder.projection.bias": pick(tensors, f"{encoder}_projection.bias", (p,), source),
        **lstm_tensors(tensors, stack, config.lstm, source),
    }
    mixes = _mixes(tensors, prefix, config.num_layers, source)
    description = f"AllenNLP model with ELMo at {prefix.rstrip('.') or 'its root'}"
    if len(prefixes) > 1:
        description += f" (the first of {len(prefixes)})"
    description += f" and {len(mixes)} scalar mix{'' if len(mixes) == 1 else 'es'}{assumed}"
    return Checkpoint(config=config, tensors=ours, description=description, mixes=mixes)


def _config(tensors: Mapping[str, Tensor], encoder: str, stack: str, source: str) -> ElmoConfig:
    """Return the architecture that the shapes imply; the arrays are checked against it later."""
    rows, embedding_dim = _shape(tensors, f"{encoder}_char_embedding_weights", 2, source)
    if rows != NUM_BYTE_CHARACTERS:
        raise ElmoxError(
            f"{source}: {encoder}_char_embedding_weights has {rows} rows, expected "
            f"{NUM_BYTE_CHARACTERS} characters"
        )
    kernels = [
        _shape(tensors, f"{encoder}char_conv_{i}.weight", 3, source)
        for i in range(count(tensors, encoder + "char_conv_{}.weight"))
    ]
    recurrent = _shape(tensors, f"{stack}forward_layer_0.state_linearity.weight", 2, source)
    char_cnn = CharCnnConfig(
        filters=tuple((width, number) for number, _, width in kernels),
        embedding_dim=embedding_dim,
        num_highways=count(tensors, encoder + "_highways._layers.{}.weight"),
    )
    lstm = LstmConfig(
        cell_dim=recurrent[0] // 4,
        projection_dim=recurrent[1],
        num_layers=count(tensors, stack + "forward_layer_{}.input_linearity.weight"),
        forget_bias=0.0,  # AllenNLP added it to the bias when it read the weight file
    )
    return ElmoConfig(lstm=lstm, char_cnn=char_cnn, token_projection=True)


def _shape(
    tensors: Mapping[str, Tensor], name: str, num_dimensions: int, source: str
) -> tuple[int, ...]:
    if name not in tensors:
        raise ElmoxError(f"{source} lacks the tensor {name}")
    shape = tuple(tensors[name].shape)
    if len(shape) != num_dimensions:
        raise ElmoxError(
            f"{source}: {name} has shape {shape}, expected {num_dimensions} dimensions"
        )
    return shape


def _checked(config: ElmoConfig, options: ElmoConfig, source: str) -> ElmoConfig:
    """Complete the architecture that the shapes imply by an options file that agrees with it."""
    if options.char_cnn is None or config.char_cnn is None:
        raise ElmoxError(f"{source} spells words, but the options describe a word-vocabulary model")
    char_cnn = replace(
        config.char_cnn,
        activation=options.char_cnn.activation,
        max_characters=options.char_cnn.max_characters,
    )
    lstm = replace(
        config.lstm,
        cell_clip=options.lstm.cell_clip,
        proj_clip=options.lstm.proj_clip,
        skip_connections=options.lstm.skip_connections,
    )
    # AllenNLP's forget constant is in the bias, and it projects even to the width of the cells.
    expected = replace(options.lstm, forget_bias=0.0, has_projection=True)
    for part, ours, theirs in (
        ("char_cnn", char_cnn, options.char_cnn),
        ("lstm", lstm, expected),
    ):
        if ours != theirs:
            raise ElmoxError(
                f"{source}: {part}: the tensors have {ours}, the options file has {theirs}"
            )
    return replace(config, char_cnn=char_cnn, lstm=lstm)


def _mixes(
    tensors: Mapping[str, Tensor], prefix: str, num_layers: int, source: str
) -> dict[str, Mix]:
    mixes: dict[str, Mix] = {}
    pattern = re.compile(re.escape(prefix) + r"scalar_mix_(\d+)\.gamma")
    for name in tensors:
        if match := pattern.fullmatch(name):
            mix = f"{prefix}scalar_mix_{match[1]}."
            number = count(tensors, mix + "scalar_parameters.{}")
            if number != num_layers:
                raise ElmoxError(f"{source}: {mix}* has {number} weights for {num_layers} layers")
            names = [*(f"{mix}scalar_parameters.{j}" for j in range(number)), name]
            *weights, gamma = (float(pick(tensors, name, (1,), source)) for name in names)
            mixes[f"scalar_mix_{match[1]}"] = Mix(tuple(weights), gamma)
    return mixes


def _find_options(folder: Path) -> Path | None:
    """Return the biLM's options file, if the folder has it: by its usual name, or as configured.

    A configuration names the file as it was called where the model was trained. Only the last part
    of that path counts, inside the folder: a model must not choose which other files are read.
    """
    for path in sorted(folder.iterdir()):
        if path.name.endswith("options_file") or path.name == "options.json":
            return path
    if not (folder / "config.json").is_file():
        return None
    try:
        config = json.loads(read_whole(folder / "config.json", MAX_JSON_BYTES))
    except (ValueError, RecursionError):  # AllenNLP's Jsonnet need not be JSON, nor do we need it
        return None
    names = [PureWindowsPath(name).name for name in _options_files(config)]
    likely = (folder / name for name in names if name not in ("", "..", "config.json"))
    return next((path for path in likely if path.is_file()), None)


def _options_files(config: Any) -> Iterator[str]:
    """Yield the values of "options_file" anywhere in a configuration."""
    pending = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            name = value.get("options_file")
            if isinstance(name, str):
                yield name
            pending += value.values()
        elif isinstance(value, list):
            pending += value
