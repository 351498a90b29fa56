"""The weighted pooling of a model directory: `pooling.safetensors` and `pooling.json`.

pooling.safetensors  means (J, D), directions (J, k, D), scales (J,)
pooling.json         {"weights": {word: number}}
"""

from pathlib import Path

from elmox.config import ElmoConfig
from elmox.errors import ElmoxError, shortened
from elmox.io.files import read_json, to_json
from elmox.io.inputs import MAX_WORDS_BYTES
from elmox.io.tensors import checked_tensor, read_tensors, write_tensors
from elmox.model.weighted_pooling import WeightedPooling

TENSORS_FILE = "pooling.safetensors"
WORDS_FILE = "pooling.json"


def write_pooling(pooling: WeightedPooling, folder: Path) -> None:
    """Write both files."""
    tensors = {
        "means": pooling.means,
        "directions": pooling.directions,
        "scales": pooling.scales,
    }
    write_tensors(tensors, folder / TENSORS_FILE)
    (folder / WORDS_FILE).write_bytes(to_json({"weights": dict(pooling.weights)}))


def read_pooling(folder: Path, config: ElmoConfig) -> WeightedPooling | None:
    """Return the pooling of a directory, checked; None if it has none."""
    missing = [name for name in (TENSORS_FILE, WORDS_FILE) if not (folder / name).is_file()]
    if len(missing) == 1:
        raise ElmoxError(
            f"{folder} lacks {missing[0]}: a pooling is {TENSORS_FILE} and {WORDS_FILE}, or neither"
        )
    if missing:
        return None
    path, layers, dim = folder / TENSORS_FILE, config.num_layers, config.dim
    tensors = {name: tensor.float() for name, tensor in read_tensors(path).items()}
    directions = tensors.get("directions")
    number = directions.shape[1] if directions is not None and directions.ndim == 3 else 0
    scales = checked_tensor(tensors, "scales", (layers,), path)
    if not (scales > 0).all():
        raise ElmoxError(f"{path}: scales holds {scales.min():g}, expected numbers above 0")
    return WeightedPooling(
        _read_weights(folder / WORDS_FILE),
        checked_tensor(tensors, "means", (layers, dim), path),
        checked_tensor(tensors, "directions", (layers, number, dim), path),
        scales,
    )


def _read_weights(path: Path) -> dict[str, float]:
    weights = read_json(path, MAX_WORDS_BYTES).get("weights")
    if not isinstance(weights, dict):
        raise ElmoxError(f"{path} has weights {shortened(weights)}, expected an object of numbers")
    for word, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:
            raise ElmoxError(
                f"{path}: the weight of {shortened(word)} is {shortened(weight)}, expected a "
                "number above 0 and at most 1"
            )
    return {word: float(weight) for word, weight in weights.items()}
