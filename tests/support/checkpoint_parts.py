"""What the random checkpoints of the tests are made of: options, arrays, small file writers.

Weights are normal with a standard deviation of at most 1/sqrt(fan in), so that a float32 run stays
within a tight tolerance of float64.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Options = dict[str, Any]
Arrays = dict[str, NDArray[np.float32]]
Clip = float | Literal["absent"] | None


def random_options(
    *,
    filters: Sequence[tuple[int, int]] = ((1, 4), (2, 5), (3, 6)),
    char_dim: int = 4,
    max_characters: int = 50,
    n_characters: int = 262,
    n_highway: int = 2,
    activation: str = "relu",
    projection_dim: int = 6,
    dim: int = 10,
    n_layers: int = 2,
    skip: bool = True,
    cell_clip: Clip = 3.0,
    proj_clip: Clip = 3.0,
) -> Options:
    """The options.json of a tiny model; a clip can be a number, null (None) or "absent"."""
    clips = {"cell_clip": cell_clip, "proj_clip": proj_clip}
    return {
        "lstm": {
            "use_skip_connections": skip,
            "projection_dim": projection_dim,
            "dim": dim,
            "n_layers": n_layers,
            **{name: clip for name, clip in clips.items() if clip != "absent"},
        },
        "char_cnn": {
            "activation": activation,
            "filters": [list(pair) for pair in filters],
            "n_highway": n_highway,
            "embedding": {"dim": char_dim},
            "n_characters": n_characters,
            "max_characters_per_token": max_characters,
        },
    }


@st.composite
def options_strategy(draw: st.DrawFn) -> Options:
    """Any legal options.json of a tiny character model.

    Filters as wide as the word, no highways, no token projection (the filters already sum to
    projection_dim), no LSTM projection (dim == projection_dim), one to three layers, and clips that
    are large, small enough to bite, null or absent.
    """
    max_characters = draw(st.integers(5, 60))
    widths = st.integers(1, min(7, max_characters)) | st.integers(1, max_characters)
    filters = draw(st.lists(st.tuples(widths, st.integers(1, 5)), min_size=1, max_size=4))
    count = sum(n for _, n in filters)
    projection_dim = count if draw(st.booleans()) else draw(st.integers(1, 8))
    dim = projection_dim + (draw(st.integers(1, 8)) if draw(st.booleans()) else 0)
    clips: st.SearchStrategy[Clip] = st.sampled_from([3.0, 0.3, 0.05, None, "absent"])
    return random_options(
        filters=filters,
        char_dim=draw(st.integers(1, 5)),
        max_characters=max_characters,
        n_characters=draw(st.sampled_from([261, 262])),
        n_highway=draw(st.integers(0, 3)),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        projection_dim=projection_dim,
        dim=dim,
        n_layers=draw(st.integers(1, 3)),
        skip=draw(st.booleans()),
        cell_clip=draw(clips),
        proj_clip=draw(clips),
    )


def normal(
    rng: np.random.Generator, shape: tuple[int, ...], std: float = 1.0
) -> NDArray[np.float32]:
    """Normal numbers in float32."""
    return (std * rng.standard_normal(shape)).astype(np.float32)


def lstm_arrays(options: Options, rng: np.random.Generator, std_scale: float = 1.0) -> Arrays:
    """The arrays of the LSTM stacks, under their HDF5 names."""
    lstm = options["lstm"]
    p, c = lstm["projection_dim"], lstm["dim"]
    arrays: Arrays = {}
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            arrays[f"{cell}/W_0"] = normal(rng, (2 * p, 4 * c), std_scale / np.sqrt(2 * p))
            arrays[f"{cell}/B"] = normal(rng, (4 * c,), 0.5)
            if c != p:
                arrays[f"{cell}/W_P_0"] = normal(rng, (c, p), std_scale / np.sqrt(c))
    return arrays


def char_arrays(options: Options, rng: np.random.Generator, std_scale: float = 1.0) -> Arrays:
    """The arrays of the character encoder, under their HDF5 names; `char_embed` has 261 rows."""
    cnn, p = options["char_cnn"], options["lstm"]["projection_dim"]
    e = cnn["embedding"]["dim"]
    arrays: Arrays = {"char_embed": rng.uniform(-1, 1, (261, e)).astype(np.float32)}
    for k, (width, n) in enumerate(cnn["filters"]):
        arrays[f"CNN/W_cnn_{k}"] = normal(rng, (1, width, e, n), std_scale / np.sqrt(width * e))
        arrays[f"CNN/b_cnn_{k}"] = normal(rng, (n,), 0.1)
    count = sum(n for _, n in cnn["filters"])
    for k in range(cnn["n_highway"]):
        for part in ("carry", "transform"):
            arrays[f"CNN_high_{k}/W_{part}"] = normal(
                rng, (count, count), std_scale / np.sqrt(count)
            )
            arrays[f"CNN_high_{k}/b_{part}"] = normal(rng, (count,), 0.5)
    if count != p:
        arrays["CNN_proj/W_proj"] = normal(rng, (count, p), std_scale / np.sqrt(count))
        arrays["CNN_proj/b_proj"] = normal(rng, (p,), 0.1)
    return arrays


def ai2_arrays(options: Options, rng: np.random.Generator, std_scale: float = 1.0) -> Arrays:
    """All arrays of a character model, under their HDF5 names."""
    return char_arrays(options, rng, std_scale) | lstm_arrays(options, rng, std_scale)


def write_hdf5(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> Path:
    """Writes named arrays; a slash in a name makes a group."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def write_json(path: Path, value: object) -> Path:
    """Writes a JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_vocabulary(path: Path, vocabulary: Sequence[str]) -> Path:
    """Writes one word per line."""
    path.write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    return path
