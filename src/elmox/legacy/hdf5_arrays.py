"""Named arrays in HDF5 files that others wrote, or will read."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError

if TYPE_CHECKING:
    import h5py

Array = NDArray[np.float32]
# Reads one dataset after checking its shape; the string says in the options' words what it must be.
Read = Callable[[str, tuple[int, ...], str], Array]


@contextmanager
def opened_hdf5(path: Path) -> Iterator["h5py.File"]:
    """Open a file for reading; whatever is wrong with it is an `ElmoxError`."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            yield file
    except FileNotFoundError:
        raise ElmoxError(f"{path} does not exist") from None
    except (OSError, RuntimeError, KeyError) as error:  # h5py has no error of its own
        raise ElmoxError(
            f"{path} cannot be read as HDF5, it is damaged, cut short or another format: {error}"
        ) from error


def array_reader(file: "h5py.File", path: Path, wanted_by: str) -> Read:
    """Reads arrays of known shape; `wanted_by` names what says so, for error messages."""

    def read(name: str, shape: tuple[int, ...], meaning: str) -> Array:
        if name not in file:
            raise ElmoxError(
                f"{path} lacks the array {name}: {wanted_by} asks for it with shape "
                f"{shape} = {meaning}"
            )
        dataset = file[name]
        if not hasattr(dataset, "shape"):
            raise ElmoxError(f"{path}: {name} is a group, expected an array")
        if dataset.shape != shape:
            raise ElmoxError(
                f"{path}: {name} has shape {dataset.shape}, but {wanted_by} asks for "
                f"{shape} = {meaning}: the two files do not belong together"
            )
        try:
            return np.asarray(dataset[()], dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ElmoxError(f"{path}: {name} does not hold numbers: {error}") from error

    return read


def write_hdf5(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays; a slash in a name makes a group."""
    from elmox.hdf5 import creating_hdf5

    with creating_hdf5(path) as hdf5:
        for name, array in arrays.items():
            hdf5.file.create_dataset(name, data=np.ascontiguousarray(array, dtype=np.float32))
            hdf5.check()
