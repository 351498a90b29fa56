"""Named arrays in the files of other programs, most of which are HDF5."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from elmox.io.hdf5_reader import Hdf5Reader

Array = NDArray[np.float32]
# Reads one dataset after checking its shape; the string explains the shape in the options' words.
Read = Callable[[str, tuple[int, ...], str], Array]


class ArrayFile(Protocol):
    """An open file of arrays by name; a slash in a name enters a group."""

    @property
    def path(self) -> Path:
        """The file, for error messages."""

    def __contains__(self, name: str) -> bool:
        """Return whether there is an array or a group of this name."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of an array, None if it is declared empty."""

    def read(self, name: str) -> NDArray[Any]:
        """Return an array of numbers."""


def open_hdf5(path: Path) -> "closing[Hdf5Reader]":
    """Open a file for reading; everything wrong with it is an `ElmoxError`."""
    from elmox.io.hdf5_reader import Hdf5Reader

    return closing(Hdf5Reader(path))


def array_reader(file: ArrayFile, required_by: str) -> Read:
    """Return a function that reads arrays; errors name the file that requires their shape."""
    path = file.path

    def read(name: str, shape: tuple[int, ...], meaning: str) -> Array:
        if name not in file:
            raise ElmoxError(
                f"{path} lacks the array {name}: {required_by} requires it with shape "
                f"{shape} = {meaning}"
            )
        if file.shape(name) != shape:
            raise ElmoxError(
                f"{path}: {name} has shape {file.shape(name)}, but {required_by} requires "
                f"{shape} = {meaning}: the two files do not belong together"
            )
        with np.errstate(over="ignore"):  # infinite values are refused later, by name
            return np.asarray(file.read(name), dtype=np.float32)

    return read


def write_hdf5(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays; a slash in a name makes a group."""
    from elmox.io.hdf5 import creating_hdf5

    with creating_hdf5(path) as hdf5:
        for name, array in arrays.items():
            hdf5.file.create_dataset(name, data=np.ascontiguousarray(array, dtype=np.float32))
            hdf5.check()
