"""TensorFlow checkpoints for the tests: those that bilm-tf made, and a writer for any others.

`tf1/` next to the tests of `pretrained` was made by `make_tf1.py`. The writer shares only the
checksum with the package's reader.
"""

import json
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmox.io.crc32c import crc32c

TF1 = Path(__file__).parents[1] / "pretrained" / "tf1"
SENTENCES = (("the", "cat", "sat", "."), ("a", "naïve", "dog", "ran", "on", "."), ("mat",))

Item = tuple[bytes, bytes]


def copy_tf1(folder: Path, name: str) -> Path:
    """Copy one of bilm-tf's checkpoints into a folder; a module has its graph's empty file."""
    shutil.copytree(TF1 / name, folder, dirs_exist_ok=True)
    (folder / "expected.npz").unlink(missing_ok=True)
    if name == "module":
        (folder / "saved_model.pb").touch()
    return folder


def masked(content: bytes) -> int:
    """The checksum as it is stored."""
    checksum = crc32c(content)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def header(shards: int = 1, order: int = 0, least: int = 0) -> bytes:
    """BundleHeaderProto."""
    return field(1, shards) + field(2, order) + field(3, field(1, 1) + field(2, least))


def entry(
    shape: Sequence[int],
    num_bytes: int,
    *,
    dtype: int = 1,
    offset: int = 0,
    shard: int = 0,
    checksum: int = 0,
    slices: int = 0,
) -> bytes:
    """BundleEntryProto."""
    dimensions = b"".join(field(2, field(1, size % 2**64)) for size in shape)
    content = field(1, dtype) + field(2, dimensions) + field(3, shard) + field(4, offset)
    content += field(5, num_bytes) + varint(6 << 3 | 5) + struct.pack("<I", checksum)
    return content + b"".join(field(7, b"") for _ in range(slices))


def block(items: Sequence[Item]) -> bytes:
    """Entries with shared beginnings, and one restart."""
    content, last = b"", b""
    for key, value in items:
        shared = 0
        while shared < min(len(key), len(last)) and key[shared] == last[shared]:
            shared += 1
        content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        content += key[shared:] + value
        last = key
    return content + struct.pack("<II", 0, 1)


def table(blocks: Sequence[bytes], compression: int = 0, index: bytes | None = None) -> bytes:
    """A table of data blocks; `index` replaces the content of the block that lists them."""
    file, handles = b"", []
    for number, content in enumerate([*blocks, block([])]):
        handles.append((bytes([number]), varint(len(file)) + varint(len(content))))
        file += sealed(content, compression)
    *data, (_, metaindex) = handles
    content = block(data) if index is None else index
    footer = metaindex + varint(len(file)) + varint(len(content))
    file += sealed(content)
    return file + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def sealed(content: bytes, compression: int = 0) -> bytes:
    """A block with its compression and checksum."""
    content += bytes([compression])
    return content + struct.pack("<I", masked(content))


def write_bundle(path: Path, arrays: Mapping[str, NDArray[np.floating]]) -> Path:
    """Write PATH.index and its data; return the index."""
    data, items = b"", [(b"", header())]
    types = {np.dtype(np.float32): 1, np.dtype(np.float64): 2, np.dtype(np.float16): 19}
    for name, array in sorted(arrays.items()):
        content = array.tobytes()
        items.append(
            (
                name.encode(),
                entry(
                    array.shape,
                    len(content),
                    dtype=types[array.dtype],
                    offset=len(data),
                    checksum=masked(content),
                ),
            )
        )
        data += content
    path.with_name(f"{path.name}.data-00000-of-00001").write_bytes(data)
    index = path.with_name(f"{path.name}.index")
    index.write_bytes(table([block(part) for part in _parts(items)]))
    return index


def write_tf1(folder: Path, options: Mapping[str, object], arrays: Mapping[str, object]) -> Path:
    """Write a checkpoint of the LSTM's and the encoder's arrays, under their HDF5 names."""
    names = {
        name.replace("/RNN/MultiRNNCell/Cell", "/rnn/multi_rnn_cell/cell_")
        .replace("LSTMCell/W_P_0", "lstm_cell/projection/kernel")
        .replace("LSTMCell/W_0", "lstm_cell/kernel")
        .replace("LSTMCell/B", "lstm_cell/bias"): np.asarray(array)
        for name, array in arrays.items()
    }
    (folder / "options.json").write_text(json.dumps(options))
    return write_bundle(folder / "model.ckpt-1", {f"lm/{n}": a for n, a in names.items()})


def _parts(items: Sequence[Item], size: int = 7) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
