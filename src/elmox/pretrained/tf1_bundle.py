"""TensorFlow's checkpoints, without TensorFlow: NAME.index and NAME.data-00000-of-00001.

The index is a table (`tf1_table`) of protocol buffers by name. The empty name has the header:
the number of data files and their byte order. Every other has a variable's type, shape, data file,
offset, size and checksum. The data files are the numbers, one variable after the other.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError, shortened
from elmox.io.inputs import read_whole, require_regular
from elmox.pretrained.tf1_table import DamagedTable, matches, read_table, require, varint

MAX_INDEX_BYTES = 2**22  # that of the largest model takes 10 kB
MAX_DIMENSIONS = 8

_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("<f8"),
    19: np.dtype("<f2"),
}
_MAX_SHARDS = 1000
_VERSION = 1  # of the format, that readers must know


@dataclass(frozen=True)
class _Entry:
    """Type, shape and position of a variable."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    num_bytes: int
    checksum: int
    num_slices: int


class Bundle:
    """The variables of a checkpoint, by name.

    Any problem with its files is an `ElmoxError` that names the file.
    """

    def __init__(self, index: Path) -> None:
        """Read the index; the numbers are read by `read`."""
        self.path = index
        content = read_whole(index, MAX_INDEX_BYTES)
        with self._errors():
            self._entries: dict[str, _Entry] = {}
            self._num_shards = 0
            for key, value in read_table(content):
                if key:
                    name = key.decode("utf-8", "backslashreplace")
                    # The parts of partitioned variables have binary names.
                    if key[0] != 0:
                        self._entries[name] = _entry(value)
                else:
                    self._num_shards = _num_shards(value)
            require(self._num_shards > 0, "it lacks its header")
        self._left: dict[int, int] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether there is a variable of this name."""
        return name in self._entries

    def names(self) -> list[str]:
        """Return the names of all variables, those of an optimizer among them."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return self._entries[name].shape

    def read(self, name: str) -> NDArray[Any]:
        """Return a variable, after comparing its size and its checksum."""
        entry = self._entries[name]
        if entry.num_slices:
            raise ElmoxError(
                f"{self.path}: {name} is partitioned into {entry.num_slices} parts, expected it as "
                "a whole: save it without a partitioner"
            )
        if entry.dtype not in _DTYPES:
            raise ElmoxError(
                f"{self.path}: {name} has TensorFlow's type number {entry.dtype}, expected "
                "floating point numbers"
            )
        dtype = _DTYPES[entry.dtype]
        file = self._shard(entry.shard)
        size = require_regular(file)
        self._left.setdefault(entry.shard, size)
        self._left[entry.shard] -= entry.num_bytes
        with self._errors():
            expected = math.prod(entry.shape) * dtype.itemsize
            require(0 < expected == entry.num_bytes, f"the size of {name} is not that of its shape")
        if entry.offset + entry.num_bytes > size:
            raise ElmoxError(
                f"{file} has {size:,} bytes, but {self.path.name} expects {name} at "
                f"{entry.offset:,} to {entry.offset + entry.num_bytes:,}: it is cut short or "
                "belongs to another checkpoint"
            )
        if self._left[entry.shard] < 0:
            raise ElmoxError(f"{self.path}: several names share the same bytes of {file.name}")
        content = _content(file, entry)
        if not matches(content, entry.checksum):
            raise ElmoxError(
                f"{file}: the checksum of {name} does not match {self.path.name}: it is damaged or "
                "belongs to another checkpoint"
            )
        return np.frombuffer(content, dtype).reshape(entry.shape)

    def _shard(self, number: int) -> Path:
        if number >= self._num_shards:
            raise ElmoxError(f"{self.path} is damaged: it names a data file that it does not have")
        stem = self.path.name.removesuffix(".index")
        path = self.path.with_name(f"{stem}.data-{number:05d}-of-{self._num_shards:05d}")
        if not path.exists():
            raise ElmoxError(f"{path} does not exist: {self.path.name} requires it next to it")
        return path

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DamagedTable as error:
            raise ElmoxError(
                f"{self.path} cannot be read as the index of a TensorFlow checkpoint: {error}"
            ) from error


def _content(file: Path, entry: _Entry) -> bytearray:
    content = bytearray(entry.num_bytes)
    try:
        with file.open("rb") as opened:
            opened.seek(entry.offset)
            count = opened.readinto(content)
    except OSError as error:
        raise ElmoxError(f"{file} cannot be read: {error.strerror or error}") from error
    if count != entry.num_bytes:
        raise ElmoxError(f"{file} is cut short")
    return content


def _num_shards(message: bytes) -> int:
    """Read the header: BundleHeaderProto."""
    shards, order, version = 0, 0, b""
    for number, value in _fields(message):
        match number, value:
            case 1, int():
                shards = value
            case 2, int():
                order = value
            case 3, bytes():
                version = value
    require(order == 0, "its numbers are big-endian, expected little-endian")
    require(0 < shards <= _MAX_SHARDS, f"it has {shards:,} data files")
    least = next((value for number, value in _fields(version) if number == 2), 0)
    require(isinstance(least, int) and least <= _VERSION, "it is of a newer format")
    return shards


def _entry(message: bytes) -> _Entry:
    """Read the description of a variable: BundleEntryProto."""
    numbers = dict.fromkeys((1, 3, 4, 5, 6), 0)
    shape: tuple[int, ...] = ()
    num_slices = 0
    for number, value in _fields(message):
        if number == 2 and isinstance(value, bytes):
            shape = _shape(value)
        elif number in numbers:
            require(isinstance(value, int), "a number in it is not one")
            assert isinstance(value, int)
            numbers[number] = value
        num_slices += number == 7
    dtype, shard, offset, num_bytes, checksum = numbers.values()
    return _Entry(dtype, shape, shard, offset, num_bytes, checksum, num_slices)


def _shape(message: bytes) -> tuple[int, ...]:
    """Read TensorShapeProto."""
    sizes: list[int] = []
    for number, dimension in _fields(message):
        if number != 2:
            require(number != 3 or not dimension, "a variable has no shape")
            continue
        require(isinstance(dimension, bytes), "a dimension is not one")
        assert isinstance(dimension, bytes)
        size = next((value for number, value in _fields(dimension) if number == 1), 0)
        require(isinstance(size, int) and size < 2**63, "a dimension is negative")
        assert isinstance(size, int)
        sizes.append(size)
        require(len(sizes) <= MAX_DIMENSIONS, f"a variable has over {MAX_DIMENSIONS} dimensions")
    return tuple(sizes)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the numbers and the values of a protocol buffer's fields."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(message, at)
            yield number, value
            continue
        require(kind in (1, 2, 5), f"it has a field of the unknown kind {kind}")
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, at = varint(message, at)
        require(at + size <= len(message), f"field {shortened(number)} is longer than its message")
        content = message[at : at + size]
        at += size
        yield number, content if kind == 2 else int.from_bytes(content, "little")
