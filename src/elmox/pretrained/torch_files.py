"""State dicts that torch.save wrote, read as data.

A pickle is a program. `torch.load(weights_only=True)` runs a part of that language: it unpacks
records of any size, expands one number to a hundred billion, and nested tuples end the process.
Files of models need less: a dict of names to views of storages. `_unpickled` interprets the
operations that write such a dict and refuses all others. Nothing is imported, and nothing that a
file names is ever called.

    zip     NAME/data.pkl and a stored (not compressed) record NAME/data/KEY per storage
    legacy  pickles: a magic number, a version, the machine; the dict; the keys; then per key the
            number of elements (int64) and the storage
"""

import itertools
import math
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from elmox.errors import ElmoxError, shortened
from elmox.io.inputs import require_regular

MAX_OPERATIONS = 200_000  # of a pickle; a tensor needs about 30
MAX_SHARES = 8  # bytes of all tensors per byte of the file: tied weights share a storage

_MAGIC = 0x1950A86A20F9469CFC6C
_MARK = object()
_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = (
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING",
)  # fmt: skip
_DAMAGED = (
    OSError, RuntimeError, ValueError, LookupError, TypeError, ArithmeticError, EOFError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Unreadable(Exception):
    """A file that is not read; the message is the reason."""


@dataclass(frozen=True)
class _Name:
    """The name of a function or class in a pickle."""

    text: str


@dataclass(frozen=True)
class _Storage:
    """A storage as a pickle declares it."""

    key: str
    dtype: torch.dtype
    num: int  # elements
    start: int = 0  # where this view of it begins


@dataclass(frozen=True)
class _View:
    """A tensor as a pickle declares it."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class _Bounded:
    """A file for `pickletools`, which makes room for any length that a pickle declares."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size
        self.readline, self.tell = file.readline, file.tell

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._size - self._file.tell()))


def load_plain_tensors(path: Path, source: str) -> dict[str, Tensor]:
    """Read a torch state dict without ever running code from it.

    Args:
        path: what torch.save wrote, in its zip format or the older one.
        source: the file's name, for error messages.

    Returns:
        The tensors in float32.
    """
    size = require_regular(path)
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
        tensors = (_read_zip if is_zip else _read_legacy)(path, size)
    except _Unreadable as error:
        raise ElmoxError(
            f"{source} is not a file of plain tensors (damaged, or a pickle that would run code); "
            f"it was not loaded: {error}"
        ) from None
    except _DAMAGED as error:
        raise ElmoxError(
            f"{source} is damaged or cut short, expected a file of plain tensors; it was not "
            f"loaded: {shortened(error)}"
        ) from error
    return {name: tensor.float() for name, tensor in tensors.items()}


def _read_zip(path: Path, size: int) -> dict[str, Tensor]:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        _require(len(members) == len(archive.infolist()), "two records have the same name")
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in members.values())
        _require(stored, "its records are compressed, which torch never does")
        total = sum(info.file_size for info in members.values())
        _require(total <= size, "its records claim more bytes than the file has")
        pickles = [name for name in members if name.endswith("/data.pkl")]
        _require(len(pickles) == 1, "it lacks data.pkl")
        prefix = pickles[0].removesuffix("data.pkl")
        order = f"{prefix}byteorder"
        _require(
            order not in members or archive.read(order) == b"little", "it is not little-endian"
        )
        with archive.open(pickles[0]) as file:
            views = _views(_unpickled(file), size)

        def load(storage: _Storage) -> Tensor:
            info = members.get(f"{prefix}data/{storage.key}")
            _require(info is not None, f"it lacks the storage {shortened(storage.key)}")
            assert info is not None
            num_bytes = storage.num * storage.dtype.itemsize
            _require(info.file_size == num_bytes, "a storage has another size than declared")
            with archive.open(info) as record:
                return _filled(record, storage)

        return _tensors(views, load)


def _read_legacy(path: Path, size: int) -> dict[str, Tensor]:
    with path.open("rb") as file:
        pickles = _Bounded(file, size)
        _require(_unpickled(pickles) == _MAGIC, "it does not begin as torch's files do")
        _unpickled(pickles)  # the version of the format
        machine = _unpickled(pickles)
        little = not isinstance(machine, dict) or machine.get("little_endian", True) is True
        _require(little, "it is not little-endian")
        views = _views(_unpickled(pickles), size)
        keys = _unpickled(pickles)
        _require(isinstance(keys, list), "it lacks the list of its storages")
        declared = {view.storage.key: view.storage for view in views.values()}
        _require(sorted(keys) == sorted(declared), "its storages are not those of its tensors")
        storages = {}
        for key in keys:
            (num,) = struct.unpack("<q", file.read(8))
            _require(num == declared[key].num, "a storage has another size than declared")
            num_bytes = num * declared[key].dtype.itemsize
            _require(0 <= num_bytes <= size - file.tell(), "it is cut short")
            storages[key] = _filled(file, declared[key])
        return _tensors(views, lambda storage: storages[storage.key])


def _filled(file: IO[bytes], storage: _Storage) -> Tensor:
    """Read a storage of checked size."""
    content = torch.empty(storage.num * storage.dtype.itemsize, dtype=torch.uint8)
    rest = memoryview(content.numpy())  # type: ignore[arg-type]
    while len(rest):
        count = file.readinto(rest)  # type: ignore[attr-defined]
        _require(count > 0, "it is cut short")
        rest = rest[count:]
    return content.view(storage.dtype)


def _views(loaded: object, size: int) -> dict[str, _View]:
    """Check a dict of tensors: each within its storage, all of them within the file's size."""
    is_plain = isinstance(loaded, dict) and all(isinstance(v, _View) for v in loaded.values())
    if not isinstance(loaded, dict) or not is_plain:
        raise _Unreadable(f"it holds a {type(loaded).__name__}, expected a dict of plain tensors")
    storages: dict[str, _Storage] = {}
    total = 0
    for name, view in loaded.items():
        storage = storages.setdefault(view.storage.key, view.storage)
        same = (storage.dtype, storage.num) == (view.storage.dtype, view.storage.num)
        _require(same, f"{shortened(name)} declares its storage anew")
        numbers = math.prod(view.shape)
        steps = zip(view.shape, view.stride, strict=True)
        end = view.offset + 1 + sum((n - 1) * step for n, step in steps) if numbers else 0
        start = view.storage.start
        _require(
            start + end <= storage.num and numbers <= storage.num,
            f"{shortened(name)} declares more numbers than its storage has",
        )
        total += numbers * storage.dtype.itemsize
    declared = sum(storage.num * storage.dtype.itemsize for storage in storages.values())
    _require(declared <= size, "its storages declare more bytes than the file has")
    _require(total <= MAX_SHARES * size, "its tensors share their storages too often")
    return loaded


def _tensors(views: Mapping[str, _View], load: Callable[[_Storage], Tensor]) -> dict[str, Tensor]:
    storages: dict[str, Tensor] = {}
    tensors: dict[str, Tensor] = {}
    for name, view in views.items():
        key = view.storage.key
        if key not in storages:
            storages[key] = load(view.storage)
        offset = view.storage.start + view.offset
        tensors[name] = storages[key].as_strided(view.shape, view.stride, offset)
    return tensors


def _unpickled(file: IO[bytes] | _Bounded) -> Any:
    """Interpret one pickle: plain values, storages and views of them."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    operations = pickletools.genops(file)  # type: ignore[arg-type]
    for code, argument, _ in itertools.islice(operations, MAX_OPERATIONS):
        operation = code.name
        if operation == "STOP":
            return stack.pop()
        if operation in ("PROTO", "FRAME"):
            continue
        if operation in _CONSTANTS:
            stack.append(_CONSTANTS[operation])
        elif operation in _VALUES:
            stack.append(argument)
        elif operation in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if operation == "EMPTY_DICT" else [])
        elif operation == "MARK":
            stack.append(_MARK)
        elif operation in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if operation == "MEMOIZE" else argument] = stack[-1]  # type: ignore[index]
        elif operation in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])  # type: ignore[index]
        elif operation == "TUPLE":
            stack.append(tuple(_since_mark(stack)))
        elif operation in _TUPLES:
            count = _TUPLES[operation]
            stack[-count:] = [tuple(stack[-count:])]
        elif operation in ("SETITEM", "SETITEMS", "APPEND", "APPENDS"):
            _fill(stack, operation)
        elif operation == "GLOBAL":
            stack.append(_Name(str(argument)))
        elif operation == "STACK_GLOBAL":
            name, module = stack.pop(), stack.pop()
            stack.append(_Name(f"{module} {name}"))
        elif operation == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif operation == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_made(function, arguments))
        elif operation == "BUILD":  # a dict's own attributes: versions of modules
            stack.pop()
            _require(isinstance(stack[-1], dict), "it changes an object")
        else:
            raise _Unreadable(f"it uses the operation {operation}, which no dict of tensors needs")
    raise _Unreadable("it is cut short, or longer than a dict of tensors")


def _since_mark(stack: list[Any]) -> list[Any]:
    """Pop everything above the last mark, and the mark."""
    values: list[Any] = []
    while (value := stack.pop()) is not _MARK:
        values.append(value)
    return values[::-1]


def _fill(stack: list[Any], operation: str) -> None:
    """Put the last values into the list or dict below them."""
    if operation.endswith("S"):
        values = _since_mark(stack)
    else:
        count = 2 if operation == "SETITEM" else 1
        values = stack[-count:]
        del stack[-count:]
    target = stack[-1]
    if operation.startswith("APPEND"):
        _require(isinstance(target, list), "it appends to something that is not a list")
        target.extend(values)
        return
    _require(isinstance(target, dict), "it changes something that is not a dict")
    keys = values[::2]
    # The hash of a deep tuple would exhaust the C stack.
    _require(all(isinstance(key, str) for key in keys), "its names are not text")
    target.update(zip(keys, values[1::2], strict=True))


def _storage(declared: Any) -> _Storage:
    """Read ("storage", class, key, device, elements[, view])."""
    match declared:
        case ("storage", _Name(text=name), str(key), str(), int(num), *rest):
            dtype = _DTYPES.get(name.removeprefix("torch "))
            _require(dtype is not None, f"it has a storage of {shortened(name)}")
            _require(_is_size(num), "a storage has a strange size")
            assert dtype is not None
            match rest:
                case [(str(), int(start), int())] if _is_size(start):
                    return _Storage(key, dtype, num, start)
                case [] | [None]:
                    return _Storage(key, dtype, num)
    raise _Unreadable("it declares a storage in an unknown way")


def _made(function: Any, arguments: Any) -> Any:
    """Return what the few known functions would."""
    name = function.text if isinstance(function, _Name) else None
    match name, arguments:
        case "collections OrderedDict", ():
            return {}
        case "torch Size", (tuple(shape),):
            return shape
        case (
            "torch._utils _rebuild_tensor" | "torch._utils _rebuild_tensor_v2",
            (_Storage() as storage, int(offset), tuple(shape), tuple(stride), *_),
        ):
            _require(all(map(_is_size, (offset, *shape, *stride))), "a tensor has a strange shape")
            _require(len(shape) == len(stride) <= 64, "a tensor has a strange shape")
            return _View(storage, offset, shape, stride)
        case (
            "torch._utils _rebuild_parameter" | "torch._utils _rebuild_parameter_with_state",
            (_View() as view, *_),
        ):
            return view
    raise _Unreadable(f"it calls {shortened(name or 'a value')}, which was not run")


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise _Unreadable(reason)
