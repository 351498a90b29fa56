"""Reading HDF5 files that may be hostile.

HDF5 has three ways to present the content of other files as its own (external links, external
storage, virtual datasets). It loads plugins for unknown filters, and a dataset of a few bytes can
declare any size. None of that occurs in a model or in a file of vectors. So a path is followed one
hard link at a time, and a dataset's description is checked before its data is read.
"""

import itertools
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5g, h5l, h5o, h5p, h5s

from elmox.errors import ElmoxError
from elmox.io.inputs import MAX_RATIO, require_regular

Array = npt.NDArray[Any]

_DEFLATE, _LZF = 1, 32000
_FILTERS = (_DEFLATE, 2, 3, _LZF)  # 2 shuffles bytes, 3 is a checksum
_MAX_ATTRIBUTE_BYTES = 2**20


class Hdf5Reader:
    """The arrays of a file, by name; a slash in a name enters a group.

    Any problem with the file is an `ElmoxError` that names it.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Open a file.

        Args:
            path: a regular file.
            shared: allow reading the same bytes more than once. Otherwise all arrays that are read
                may together take no more bytes than the file has.
        """
        self.path = path
        self._size = require_regular(path)
        self._left = None if shared else self._size
        with self._errors():
            self._file = h5py.File(path, "r")

    def close(self) -> None:
        """Close the file."""
        with self._errors():
            self._file.close()

    def __len__(self) -> int:
        """Return the number of names at the root."""
        with self._errors():
            return len(self._file)

    def __contains__(self, name: str) -> bool:
        """Return whether there is an array or a group of this name."""
        return self._find(name) is not None

    def names(self) -> list[str]:
        """Return the names at the root, of arrays and of groups."""
        with self._errors():
            return list(self._file)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of an array, None if it is declared empty."""
        with self._errors():
            return self._shape(self._array(name))

    def read(self, name: str) -> Array:
        """Return an array of numbers, after checking that its bytes are in this file."""
        with self._errors():
            dataset = self._array(name)
            dtype = self._dtype(dataset, name)
            shape = self._shape(dataset) or ()
            array = np.empty(shape, dtype)
            if array.size:
                dataset.read(h5s.ALL, h5s.ALL, array)
            return array

    def attribute(self, name: str) -> Any:
        """Return a small attribute of the file, None if there is none."""
        with self._errors():
            root, key = self._file.id, name.encode()
            if not h5a.exists(root, key):
                return None
            if h5a.open(root, key).get_storage_size() > _MAX_ATTRIBUTE_BYTES:
                raise ElmoxError(f"{self.path}: its attribute {name} is too large")
            return self._file.attrs[name]

    def _find(self, name: str) -> Any:
        """Return the identifier of the object of this name, None if there is none."""
        with self._errors():
            here = h5g.open(self._file.id, b"/")
            for part in name.encode().split(b"/"):
                if not isinstance(here, h5g.GroupID) or not here.links.exists(part):
                    return None
                if here.links.get_info(part).type != h5l.TYPE_HARD:
                    raise ElmoxError(
                        f"{self.path}: {name} is a link to another name or file, which elmox does "
                        "not follow: expected the array itself"
                    )
                here = h5o.open(here, part)
            return here

    def _array(self, name: str) -> h5d.DatasetID:
        """Return the identifier of an array whose data is all in this file."""
        dataset = self._find(name)
        if dataset is None:
            raise ElmoxError(f"{self.path} lacks the array {name}")
        if not isinstance(dataset, h5d.DatasetID):
            raise ElmoxError(f"{self.path}: {name} is a group, expected an array")
        plan = dataset.get_create_plist()
        # Before the shape: HDF5 opens other files for the shape of a virtual dataset.
        if plan.get_layout() == h5d.VIRTUAL or plan.get_external_count():
            raise ElmoxError(
                f"{self.path}: the data of {name} is in other files, which elmox does not read: "
                "expected it in this one"
            )
        return dataset

    def _shape(self, dataset: h5d.DatasetID) -> tuple[int, ...] | None:
        space = dataset.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            return None
        shape: tuple[int, ...] = space.get_simple_extent_dims()
        return shape

    def _dtype(self, dataset: h5d.DatasetID, name: str) -> np.dtype[Any]:
        """Check what an array declares against the bytes of the file, and return its dtype."""
        try:
            dtype = dataset.dtype
        except (TypeError, ValueError):
            dtype = None
        if dtype is None or dtype.kind not in "fiub" or dtype.subdtype is not None:
            raise ElmoxError(f"{self.path}: {name} does not hold numbers")
        shape = self._shape(dataset)
        count = 0 if shape is None else math.prod(shape)
        item = max(dataset.get_type().get_size(), dtype.itemsize)
        stored = self._stored_bytes(dataset, name, shape or (), count * item, item)
        if self._left is not None:
            self._left -= stored
            if self._left < 0:
                raise ElmoxError(
                    f"{self.path}: its arrays take more bytes than the file has: several names "
                    "share the same data"
                )
        checked: np.dtype[Any] = dtype
        return checked

    def _stored_bytes(
        self, dataset: h5d.DatasetID, name: str, shape: tuple[int, ...], num_bytes: int, item: int
    ) -> int:
        """Return the bytes that an array takes in the file; refuse one that declares more."""
        plan = dataset.get_create_plist()
        layout = plan.get_layout()
        if num_bytes == 0:
            return 0
        if layout == h5d.CHUNKED:
            return self._chunk_bytes(dataset, plan, name, shape, num_bytes, item)
        offset = dataset.get_offset() if layout == h5d.CONTIGUOUS else 0  # or in its header
        if offset is None or offset + max(num_bytes, dataset.get_storage_size()) > self._size:
            raise self._larger(name, num_bytes)
        return num_bytes

    def _chunk_bytes(
        self,
        dataset: h5d.DatasetID,
        plan: h5p.PropDCID,
        name: str,
        shape: tuple[int, ...],
        num_bytes: int,
        item: int,
    ) -> int:
        """Return the same for an array in chunks, which may be compressed."""
        filters = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
        if unknown := [code for code in filters if code not in _FILTERS]:
            raise ElmoxError(
                f"{self.path}: {name} is stored with filter {unknown[0]} of HDF5: elmox reads "
                "gzip and lzf, with shuffle or fletcher32"
            )
        num_compressions = sum(filters.count(code) for code in (_DEFLATE, _LZF))
        if num_compressions > 1:
            raise ElmoxError(f"{self.path}: {name} is compressed twice, expected once")
        chunk = plan.get_chunk()
        chunk_bytes = math.prod(chunk) * item
        most = self._size * (MAX_RATIO if num_compressions else 1)
        starts = [range(0, n, step) for n, step in zip(shape, chunk, strict=True)]
        num_chunks = math.prod(map(len, starts))
        if max(num_bytes, chunk_bytes) > most or num_chunks > self._size:
            raise self._larger(name, num_bytes)
        if dataset.get_num_chunks() != num_chunks:
            raise ElmoxError(f"{self.path}: {name} is incomplete: parts of it were never written")
        total = 0
        for start in itertools.product(*starts):
            stored = dataset.get_chunk_info_by_coord(start)
            total += stored.size
            offset = stored.byte_offset
            if offset is None or offset + stored.size > self._size or total > self._size:
                raise self._larger(name, num_bytes)
            if _DEFLATE in filters:
                skipped, content = dataset.read_direct_chunk(start)
                if not skipped >> filters.index(_DEFLATE) & 1:
                    # HDF5 would unpack everything before it compares sizes.
                    unpacked = zlib.decompressobj().decompress(content, chunk_bytes + 5)
                    if len(unpacked) > chunk_bytes + 4:  # 4 for a checksum
                        raise self._larger(name, num_bytes)
        return total

    def _larger(self, name: str, num_bytes: int) -> ElmoxError:
        return ElmoxError(
            f"{self.path}: {name} declares {num_bytes:,} bytes, more than there are in a file of "
            f"{self._size:,}: it is damaged or cut short"
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ElmoxError:
            raise
        # h5py has no error class, and on damaged files it raises almost anything.
        except (
            OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError,
            AttributeError, zlib.error,
        ) as error:  # fmt: skip
            raise ElmoxError(
                f"{self.path} cannot be read as HDF5, it is damaged, cut short or another format: "
                f"{error}"
            ) from error
