"""Writer of AllenNLP archives of models that contain ELMo, for the tests."""

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from checkpoint_parts import Arrays, Options, ai2_arrays, normal, write_json
from numpy.typing import NDArray

TOKEN_EMBEDDER = "text_field_embedder.token_embedder_elmo._elmo"


def allennlp_arrays(arrays: Mapping[str, NDArray[np.float32]], options: Options) -> Arrays:
    """HDF5 names and layouts to those of AllenNLP's `_ElmoBiLm`, without the module's prefix."""
    cnn, lstm = options["char_cnn"], options["lstm"]
    p = lstm["projection_dim"]
    token = "_token_embedder"
    zero_row = np.zeros_like(arrays["char_embed"][:1])
    result: Arrays = {
        f"{token}._char_embedding_weights": np.concatenate([zero_row, arrays["char_embed"]])
    }
    for k in range(len(cnn["filters"])):
        result[f"{token}.char_conv_{k}.weight"] = arrays[f"CNN/W_cnn_{k}"][0].transpose(2, 1, 0)
        result[f"{token}.char_conv_{k}.bias"] = arrays[f"CNN/b_cnn_{k}"]
    for k in range(cnn["n_highway"]):
        high = {name: arrays[f"CNN_high_{k}/{name}"] for name in ("W_carry", "W_transform")}
        bias = {name: arrays[f"CNN_high_{k}/{name}"] for name in ("b_carry", "b_transform")}
        layer = f"{token}._highways._layers.{k}"
        result[f"{layer}.weight"] = np.concatenate([high["W_transform"].T, -high["W_carry"].T])
        result[f"{layer}.bias"] = np.concatenate([bias["b_transform"], -bias["b_carry"]])
    result[f"{token}._projection.weight"] = arrays["CNN_proj/W_proj"].T
    result[f"{token}._projection.bias"] = arrays["CNN_proj/b_proj"]
    for layer_index in range(lstm["n_layers"]):
        for direction, name in enumerate(("forward", "backward")):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer_index}/LSTMCell"
            i, j, f, o = np.split(arrays[f"{cell}/W_0"].T, 4)
            b_i, b_j, b_f, b_o = np.split(arrays[f"{cell}/B"], 4)
            weight = np.concatenate([i, f, j, o])
            prefix = f"_elmo_lstm.{name}_layer_{layer_index}"
            result[f"{prefix}.input_linearity.weight"] = weight[:, :p]
            result[f"{prefix}.state_linearity.weight"] = weight[:, p:]
            result[f"{prefix}.state_linearity.bias"] = np.concatenate([b_i, b_f + 1, b_j, b_o])
            result[f"{prefix}.state_projection.weight"] = arrays[f"{cell}/W_P_0"].T
    return result


def write_allennlp_archive(
    directory: Path,
    options: Options,
    rng: np.random.Generator,
    *,
    num_mixes: int = 1,
    options_at: Literal["path", "archive", "missing"] = "path",
) -> Path:
    """Write model.tar.gz of an AllenNLP model that contains ELMo, and best.th next to it.

    One mix is an `elmo_token_embedder`; several belong to a model with its own `Elmo` module.
    AllenNLP always has both projections, so `options` must ask for both.

    Args:
        directory: where; made if it is missing.
        options: see `random_options`.
        rng: source of the weights, then of the mixes.
        num_mixes: number of scalar mixes, each with L+1 weights and a gamma.
        options_at: location of the options file that config.json names: at that "path", next to the
            archive; in the "archive", under fta/, as versions before 1.0 packed it; or "missing".

    Returns:
        The path of model.tar.gz.
    """
    import torch

    directory.mkdir(parents=True, exist_ok=True)
    arrays = allennlp_arrays(ai2_arrays(options, rng), options)
    options_file = "fixtures/options.json"
    if options_at == "path":
        options_file = str(write_json(directory / "options.json", options))
    module = TOKEN_EMBEDDER if num_mixes == 1 else "_elmo"
    state = {f"{module}._elmo_lstm.{name}": array for name, array in arrays.items()}
    for k in range(num_mixes):
        state[f"{module}.scalar_mix_{k}.gamma"] = normal(rng, (1,))
        for j in range(options["lstm"]["n_layers"] + 1):
            state[f"{module}.scalar_mix_{k}.scalar_parameters.{j}"] = normal(rng, (1,))
    state["tag_projection_layer._module.weight"] = normal(rng, (4, 2))  # the task's, not ELMo's
    tensors = {name: torch.from_numpy(array.copy()) for name, array in state.items()}
    torch.save(tensors, directory / "best.th", _use_new_zipfile_serialization=False)

    key, model = model_config(options_file, num_mixes)
    files = {
        "config.json": json.dumps({"model": model}).encode(),
        "weights.th": (directory / "best.th").read_bytes(),
        "vocabulary/labels.txt": b"O\nI-ORG\n",
        "vocabulary/non_padded_namespaces.txt": b"*labels\n*tags\n",
    }
    if options_at == "archive":
        files["files_to_archive.json"] = json.dumps({key: options_file}).encode()
        files[f"fta/{key}"] = json.dumps(options).encode()
    return write_tar(directory / "model.tar.gz", files)


def model_config(options_file: str, num_mixes: int) -> tuple[str, Options]:
    """The `model` part of config.json, and the dotted path of its options file."""
    files = {"options_file": options_file, "weight_file": "fixtures/lm_weights.hdf5"}
    if num_mixes > 1:
        elmo = files | {"num_output_representations": num_mixes}
        return "model.elmo.options_file", {"type": "bcn", "elmo": elmo}
    embedder = files | {"type": "elmo_token_embedder"}
    return "model.text_field_embedder.token_embedders.elmo.options_file", {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {"elmo": embedder}},
    }


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Writes a gzipped tar file."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
