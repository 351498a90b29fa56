"""Vectors as one HDF5 file in the layout of bilm-tf's dumps: datasets "0", "1", ... by line number.

Each dataset is one entry, contiguous and without filters, so any HDF5 reader can read it. The
metadata is JSON in the file's attribute `elmox`. Files of other programs can be opened, too:
bilm-tf's dumps, and those of `allennlp elmo` with their additional `sentence_to_index`.
"""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmox.errors import ElmoxError
from elmox.io.files import sync_file
from elmox.io.hdf5 import creating_hdf5
from elmox.io.hdf5_reader import Hdf5Reader
from elmox.vectors.layout import Array, read_meta
from elmox.vectors.parts import Parts

_ATTRIBUTE = "elmox"
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
        for i, entry in enumerate(parts):
            space = h5py.h5s.create_simple(entry.shape)
            dataset = h5py.h5d.create(hdf5.file.id, b"%d" % i, dtype, space, properties)
            windows = entry.windows()
            if len(windows) == 1:
                dataset.write(everything, everything, np.ascontiguousarray(entry[...]))
            else:
                for window in windows:
                    h5py.Dataset(dataset)[..., window, :] = entry[..., window, :]
            hdf5.check()
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

    def __init__(self, path: Path) -> None:
        """Open the file and count its entries."""
        self.meta: dict[str, Any] = {}
        self._file = Hdf5Reader(path, shared=True)
        try:
            text = self._file.attribute(_ATTRIBUTE)
            if text is not None:
                self.meta, _ = read_meta(text, path)
            # Counting the names of millions of datasets takes seconds, so trust the metadata.
            if self.meta.get("num_entries") == len(self._file):
                self.num_entries = len(self._file)
            else:
                self.num_entries = _count_entries(self._file.names(), path)
        except ElmoxError:
            self._file.close()
            raise

    def read(self, i: int) -> Array:
        """Return entry `i`."""
        return self._file.read(str(i))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
