"""The layers that a caller selects, as coefficients: every selection is a linear map of the layers.

| layers | vectors | coefficients |
|---|---|---|
| "all" | (L+1, T, D) | none: the layers as they are |
| "average" | (T, D) | 1/(L+1) each |
| "top" | (T, D) | the last one |
| 0, 1, ... or -1, ... | (T, D) | that one |
| [0, 2] | (2, T, D) | these, in this order |
| "mix" or "mix:NAME" | (T, D) | gamma * softmax(w) of a stored mix |

Nothing here imports torch.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from elmox.errors import Argument, ArgumentError, ElmoxError

Layers: TypeAlias = str | int | Sequence[int]


def layer_coefficients(
    layers: Layers, num_layers: int, mixes: Mapping[str, Callable[[], NDArray[np.float32]]]
) -> tuple[NDArray[np.float32] | None, bool]:
    """Check a selection of layers and turn it into coefficients.

    Args:
        layers: see the table above.
        num_layers: J, the token layer included.
        mixes: functions that return the coefficients (J,) of the stored mixes, by name.

    Returns:
        Coefficients (K, J), None for all layers unchanged, and whether the axis of K = 1 is dropped
        from results.
    """
    if isinstance(layers, str):
        if layers == "all":
            return None, False
        if layers == "average":
            return np.full((1, num_layers), 1.0 / num_layers, np.float32), True
        if layers == "top":
            return _one_hot([num_layers - 1], num_layers), True
        if layers == "mix" or layers.startswith("mix:"):
            return mixes[_mix_name(layers, mixes)]()[None], True
        raise ArgumentError(
            "{}: expected average, top, all, mix, mix:NAME, one index or several",
            Argument("layers", layers),
        )
    if isinstance(layers, int):
        return _one_hot([layers], num_layers), True
    if not isinstance(layers, Sized) or not len(layers):
        raise ArgumentError(
            "{}: expected a name, an index, or at least one index in a list",
            Argument("layers", layers),
        )
    return _one_hot(layers, num_layers), False


def _one_hot(numbers: Sequence[int], num_layers: int) -> NDArray[np.float32]:
    for number in numbers:
        if not isinstance(number, int) or not -num_layers <= number < num_layers:
            raise ElmoxError(
                f"layer {number!r} does not exist: this model has layers 0 to {num_layers - 1}"
            )
    return np.eye(num_layers, dtype=np.float32)[list(numbers)]


def _mix_name(layers: str, mixes: Mapping[str, object]) -> str:
    name = layers.removeprefix("mix").removeprefix(":")
    if not mixes:
        raise ArgumentError(
            "{}: no mix is stored with this model; use {}, or store a mix with "
            "Elmo.set_mix(weights, gamma)",
            Argument("layers", layers),
            Argument("layers", "average"),
        )
    if not name and len(mixes) == 1:
        return next(iter(mixes))
    if name not in mixes:
        problem = f"there is no mix {name!r}" if name else "several mixes are stored"
        raise ArgumentError(
            "{}: choose one as {} from {}",
            problem,
            Argument("layers", "mix:NAME"),
            ", ".join(mixes),
        )
    return name
