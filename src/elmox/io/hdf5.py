"""Writing HDF5 files so that a full disk is an error and not a crash.

The HDF5 library does not survive a full disk: it drops errors while objects are released, and then
crashes the process. So it writes into a file object that never raises, and we check that object
after every dataset.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import h5py

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


@dataclass(frozen=True)
class NewHdf5:
    """A file that is being written."""

    file: h5py.File
    raw: "_SteadyFile"

    def check(self) -> None:
        """Raise the first error of the file system, if any; call this after every dataset."""
        if self.raw.error is not None:
            raise self.raw.error


@contextmanager
def creating_hdf5(path: Path) -> Iterator[NewHdf5]:
    """Create a file, or empty it; a failed write is an `OSError`, at the latest at the end."""
    with _SteadyFile(path) as raw:
        with h5py.File(raw, "w") as file:
            new = NewHdf5(file, raw)
            yield new
        new.check()


class _SteadyFile(io.RawIOBase):
    """A file for the HDF5 library to write into that never raises.

    The first error is kept for the caller to check. What the library writes after it, in order to
    close its file, stays in memory.

    Attributes:
        error: the first error of the file system, if any.
    """

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it."""
        self.error: OSError | None = None
        self._file = io.FileIO(path, "w+")
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []  # writes since the error, oldest first

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
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
        """Return the position in the file."""
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
        """Fill `buffer`, with zeros beyond the end of the file."""
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
