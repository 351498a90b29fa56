"""Vectors as one HDF5 file in the layout of bilm-tf's dumps: datasets "0", "1", ... by line number.

Each dataset is one entry, contiguous and without filters, so any HDF5 reader can read it. The
metadata is JSON in the file's attribute `elmox`, the checksums of entries are in its attributes
`elmox_crc32_0`, `elmox_crc32_1`, ... (an attribute holds at most 64 kB). Files of other programs
can be opened, too: bilm-tf's dumps, and those of `allennlp elmo` with their additional
`sentence_to_index`.
"""

import json
import re
from array import array
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmox.errors import ElmoxError
from elmox.io.files import sync_file
from elmox.io.hdf5 import creating_hdf5
from elmox.io.hdf5_reader import Hdf5Reader
from elmox.vectors.checksums import CHECKSUM_DTYPE, compare, require_number_of
from elmox.vectors.layout import CHECKSUM_KEY, Array, read_meta
from elmox.vectors.parts import Parts

_ATTRIBUTE = "elmox"
_CHECKSUMS = "elmox_crc32_{}"
_CHECKSUMS_PER_ATTRIBUTE = 1 << 13
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")


def join(parts: Parts, meta: dict[str, Any], target: Path) -> None:
    """Write the entries of all parts into one file."""
    layout = parts.layout
    with creating_hdf5(target) as hdf5:
        hdf5.file.attrs[_ATTRIBUTE] = json.dumps(meta)
        # h5py's low-level calls: its convenient ones take twice as long as writing an entry.
        dtype = h5py.h5t.py_create(layout.numpy_dtype, logical=True)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_obj_track_times(False)
        everything = h5py.h5s.ALL
        checksums = array("I")
        for i, entry in enumerate(parts):
            space = h5py.h5s.create_simple(entry.shape)
            dataset = h5py.h5d.create(hdf5.file.id, b"%d" % i, dtype, space, properties)
            windows = entry.windows()
            if len(windows) == 1:
                dataset.write(everything, everything, np.ascontiguousarray(entry[...]))
            else:
                for window in windows:
                    h5py.Dataset(dataset)[..., window, :] = entry[..., window, :]
            checksums.append(entry.checksum)
            hdf5.check()
        for k, start in enumerate(range(0, len(checksums), _CHECKSUMS_PER_ATTRIBUTE)):
            values = checksums[start : start + _CHECKSUMS_PER_ATTRIBUTE]
            hdf5.file.attrs[_CHECKSUMS.format(k)] = np.array(values, CHECKSUM_DTYPE)
    sync_file(target)


def _count_entries(names: list[str], path: Path) -> int:
    """Return the number of datasets named 0, 1, ...; there must be no gap."""
    numbers = [int(key) for key in names if _NUMBER.fullmatch(key)]
    if not numbers:
        raise ElmoxError(
            f"{path}: an HDF5 file without datasets named 0, 1, ...: expected vectors written by "
            "elmox, bilm-tf or allennlp"
        )
    if max(numbers) + 1 != len(numbers):
        missing = min(set(range(max(numbers))) - set(numbers))
        raise ElmoxError(
            f"{path}: dataset {missing} is missing, but {max(numbers)} exists: the file is "
            "incomplete, write it again"
        )
    return len(numbers)


class Hdf5Source:
    """Reads an HDF5 file of vectors, one dataset at a time.

    Attributes:
        meta: the metadata; empty if another program wrote the file.
    """

    def __init__(self, path: Path, verify: bool = True) -> None:
        """Open the file and count its entries.

        Args:
            path: the file.
            verify: compare checksums, if there are any.
        """
        self._path = path
        self._checksums: Array | None = None
        self.meta: dict[str, Any] = {}
        self._file = Hdf5Reader(path, shared=True)
        try:
            text = self._file.attribute(_ATTRIBUTE)
            if text is not None:
                self.meta, self._layout = read_meta(text, path, verify)
            # Counting the names of millions of datasets takes seconds, so trust the metadata.
            if self.meta.get("num_entries") == len(self._file):
                self.num_entries = len(self._file)
            else:
                self.num_entries = _count_entries(self._file.names(), path)
            if verify:
                self._read_checksums()
        except ElmoxError:
            self._file.close()
            raise

    def read(self, i: int) -> Array:
        """Return entry `i`."""
        entry = self._file.read(str(i))
        if self._checksums is not None:
            compare(self._path, i, entry, self._layout, self._checksums[i])
        return entry

    def _read_checksums(self) -> None:
        parts: list[Array] = []
        while (part := self._file.attribute(_CHECKSUMS.format(len(parts)))) is not None:
            if not isinstance(part, np.ndarray) or part.dtype != CHECKSUM_DTYPE or part.ndim != 1:
                raise ElmoxError(f"{self._path}: its checksums are damaged: make the vectors again")
            parts.append(part)
        if parts or CHECKSUM_KEY in self.meta:
            self._checksums = np.concatenate([np.empty(0, CHECKSUM_DTYPE), *parts])
            num_entries = self.num_entries if CHECKSUM_KEY in self.meta else 0
            require_number_of(self._checksums, num_entries, self._path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
