"""Small arrays of an unfinished index, as .npz files that appear whole."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.io.files import write_whole


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays to a file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    write_whole(path, [buffer.getvalue()])


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
