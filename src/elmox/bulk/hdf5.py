"""Vectors as one HDF5 file in the layout of bilm-tf's dumps: datasets "0", "1", ... by line number.

Each dataset is one entry, contiguous and without filters, so anything that reads HDF5 reads it.
What elmox knows beyond that is JSON in the attribute `elmox` of the file. Files of other programs
open too: bilm-tf's dumps, and those of `allennlp elmo` with their additional `sentence_to_index`.
"""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from elmox.bulk.durable import sync_file
from elmox.bulk.layout import Array, read_meta
from elmox.bulk.parts import Parts
from elmox.errors import ElmoxError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_ATTRIBUTE = "elmox"


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Write the entries of all parts into one file."""
    with _SteadyFile(target) as raw:
        with h5py.File(raw, "w") as file:
            file.attrs[_ATTRIBUTE] = json.dumps(meta)
            for i, entry in enumerate(parts):
                windows = entry.windows()
                if len(windows) <= 1:
                    file.create_dataset(str(i), data=entry[...])
                else:
                    dataset = file.create_dataset(str(i), entry.shape, parts.layout.numpy_dtype)
                    for window in windows:
                        dataset[..., window, :] = entry[..., window, :]
                if raw.error is not None:
                    break
        if raw.error is not None:
            raise raw.error
    sync_file(target)


def _count_entries(file: h5py.File, path: Path) -> int:
    """How many datasets are named 0, 1, ...; there must be no gap."""
    numbers = [int(key) for key in file if key.isascii() and key.isdigit() and key == str(int(key))]
    if not numbers:
        raise ElmoxError(
            f"{path}: an HDF5 file without datasets named 0, 1, ...: expected one of vectors, "
            "as written by elmox embed, bilm-tf or allennlp elmo"
        )
    if max(numbers) + 1 != len(numbers):
        missing = min(set(range(max(numbers))) - set(numbers))
        raise ElmoxError(
            f"{path}: no dataset {missing}, though there is {max(numbers)}: "
            "the file is incomplete, write it again"
        )
    return len(numbers)


class Hdf5Source:
    """Reads such a file, one dataset at a time.

    Attributes:
        meta: what elmox wrote about the file; empty if another program wrote it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file and count its entries."""
        self._path = path
        self.meta: dict[str, Any] = {}
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise ElmoxError(f"{path}: cannot read this HDF5 file ({error})") from error
        try:
            text = self._file.attrs.get(_ATTRIBUTE)
            if text is not None:
                self.meta, _ = read_meta(text, path)
            # Counting the names costs seconds in a file of millions, so believe our own note.
            if self.meta.get("num_entries") == len(self._file):
                self.num_entries = len(self._file)
            else:
                self.num_entries = _count_entries(self._file, path)
        except ElmoxError:
            self._file.close()
            raise

    def read(self, i: int) -> Array:
        """Entry `i`."""
        dataset = self._file[str(i)]
        if not isinstance(dataset, h5py.Dataset):
            raise ElmoxError(f"{self._path}: {i} is a group of HDF5, expected a dataset")
        return np.asarray(dataset[()])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _SteadyFile(io.RawIOBase):
    """A file for the HDF5 library to write into that never fails in front of it.

    The library does not survive a full disk: it drops errors while objects are released, and then
    crashes the process. So the first error is kept here for us to look at after each entry, and
    what the library writes from then on (to close its file in order) stays in memory.

    Attributes:
        error: the first error of the file system, None while all is well.
    """

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it."""
        self.error: OSError | None = None
        self._file = io.FileIO(path, "w+")
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []  # writes since the error, oldest first

    def readable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to `offset`."""
        if whence == io.SEEK_END:
            ends = (at + len(data) for at, data in self._kept)
            offset += max([self._file.seek(0, io.SEEK_END), *ends])
        elif whence == io.SEEK_CUR:
            offset += self._position
        self._position = offset
        return offset

    def tell(self) -> int:
        """The position in the file."""
        return self._position

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        size = self._position if size is None else size
        if self.error is None:
            try:
                self._file.truncate(size)
            except OSError as error:
                self.error = error
        return size

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill `buffer`, with zeros where there is nothing."""
        view = memoryview(buffer).cast("B")
        self._file.seek(self._position)
        content = bytearray(self._file.read(len(view)).ljust(len(view), b"\0"))
        here = self._position
        for at, data in self._kept:
            start, stop = max(at, here), min(at + len(data), here + len(view))
            if start < stop:
                content[start - here : stop - here] = data[start - at : stop - at]
        view[:] = content
        self._position += len(view)
        return len(view)

    def write(self, buffer: "ReadableBuffer") -> int:
        """Write all of `buffer`."""
        view = memoryview(buffer).cast("B")
        rest = view
        try:
            self._file.seek(self._position)
            while rest and self.error is None:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            self.error = error
        if rest:
            self._kept.append((self._position + len(view) - len(rest), bytes(rest)))
        self._position += len(view)
        return len(view)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
