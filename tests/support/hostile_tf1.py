"""TensorFlow checkpoints with sound checksums that declare what they do not hold."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from broken import rng
from checkpoint_parts import ai2_arrays, random_options
from checkpoints_tf1 import (
    Item,
    block,
    copy_tf1,
    entry,
    field,
    header,
    masked,
    sealed,
    table,
    varint,
    write_tf1,
)
from hostile import Hostile

NAME = b"lm/char_embed"


def index(folder: Path, bait: Path, content: Callable[[], bytes]) -> Path:
    """A checkpoint with another index."""
    path = write_tf1(folder, random_options(), ai2_arrays(random_options(), rng()))
    path.write_bytes(content())
    return path


def module(folder: Path, bait: Path, content: Callable[[], bytes]) -> Path:
    """The variables of a TF-Hub module, whose architecture follows from its names and shapes."""
    path = folder / "variables.index"
    path.write_bytes(content())
    return path


def one(shape: Sequence[int] = (261, 4), num_bytes: int = 4176, **other: int) -> bytes:
    """An index of one variable."""
    return table([block([(b"", header()), (NAME, entry(shape, num_bytes, **other))])])


def entries(items: Sequence[Item], **other: int) -> bytes:
    """An index of any entries, with a header."""
    return table([block([(b"", header(**other)), *items])])


def crowd(number: int) -> bytes:
    """An index of many variables with long names, most of each shared with the one before."""
    names = (b"lm/CNN_high_%07d/W_carry" % i for i in range(number))
    return entries([(name, entry((1,), 4)) for name in names] + [(NAME, entry((261, 4), 4176))])


def repeated(number: int) -> bytes:
    """An index that lists one block many times."""
    data = block([(b"", header()), (NAME, entry((1,), 4))])
    handles = block([(b"%07d" % i, varint(0) + varint(len(data))) for i in range(number)])
    return table([data], index=handles)


def bare(content: bytes) -> bytes:
    """An index of one block of any content."""
    return table([content])


def shared_cells(folder: Path, bait: Path) -> Path:
    """Nine hundred layers that share the bytes of one."""
    options = random_options(n_highway=0, n_layers=900)
    small = random_options(n_highway=0, n_layers=1)
    arrays = ai2_arrays(small, rng())
    path = write_tf1(folder, options, arrays)
    data = path.with_name("model.ckpt-1.data-00000-of-00001").read_bytes()
    items = {}
    for name, array in arrays.items():
        at = data.index(array.tobytes())
        content = entry(array.shape, array.nbytes, offset=at, checksum=masked(array.tobytes()))
        tf_name = name.replace("/RNN/MultiRNNCell/Cell", "/rnn/multi_rnn_cell/cell_")
        for old, new in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("B", "bias")):
            tf_name = tf_name.replace(f"LSTMCell/{old}", f"lstm_cell/{new}")
        for layer in range(900 if "cell_0" in name or "Cell0" in name else 1):
            items[f"lm/{tf_name.replace('cell_0', f'cell_{layer}')}".encode()] = content
    path.write_bytes(entries(sorted(items.items())))
    return path


def replaced(folder: Path, bait: Path, suffix: str, target: str) -> Path:
    """A checkpoint with a link in place of one of its files."""
    copy_tf1(folder, "characters")
    (path,) = folder.glob(f"*{suffix}")
    path.unlink()
    os.symlink(bait / target if not target.startswith("/") else target, path)
    return folder


def latest(folder: Path, bait: Path, name: str) -> Path:
    """A directory whose text file names any path as the latest checkpoint."""
    copy_tf1(folder, "characters")
    text = f'model_checkpoint_path: "{name.format(bait=bait)}"\n'
    (folder / "checkpoint").write_text(text)
    (folder / "model.ckpt-50.index").rename(folder / "model.ckpt-49.index")
    (folder / "model.ckpt-48.index").write_bytes(b"")
    return folder


INDICES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "no header": lambda: table([block([(NAME, entry((1,), 4))])]),
    "no entries": lambda: table([block([])]),
    "no blocks": lambda: table([]),
    "only a footer": lambda: table([])[-48:],
    "compressed": lambda: table([block([(b"", header())])], compression=1),
    "a billion data files": lambda: entries([(NAME, entry((1,), 4))], shards=10**9),
    "big-endian": lambda: entries([(NAME, entry((1,), 4))], order=1),
    "a newer format": lambda: entries([(NAME, entry((1,), 4))], least=2),
    "a shape of 2^40": lambda: one((2**40, 4), 2**44),
    "a shape of 2^62": lambda: one((2**62, 2**62)),
    "a shape of nothing": lambda: one((0, 4), 0),
    "a negative shape": lambda: one((-261, 4)),
    "a hundred dimensions": lambda: one((1,) * 100, 4),
    "another size than its shape": lambda: one(num_bytes=4177),
    "an offset beyond the end": lambda: one(offset=2**63),
    "a data file that is not there": lambda: one(shard=1),
    "text": lambda: one(dtype=7),
    "a partitioned variable": lambda: one(slices=2),
    "20,000 variables": lambda: crowd(20_000),
    "9,000 highways": lambda: crowd(9_000),
    "one block many times": lambda: repeated(100_000),
    "names out of order": lambda: entries([(b"b", b""), (b"a", b"")]),
    "a name of 100 kB": lambda: entries([(b"a" * 10**5, b"")]),
    "a name for a terminal": lambda: entries([(b"\x1b[2J\x07/char_embed", entry((1,), 4))] * 1),
    "a name that is not UTF-8": lambda: entries([(b"\xff/char_embed", entry((1,), 4))]),
    "a name that shares what is not there": lambda: bare(b"\x05\x01\x00a" + b"\0" * 8),
    "a value longer than its block": lambda: bare(b"\x00\x01\x7fa" + b"\0" * 8),
    "a number without an end": lambda: bare(b"\xff" * 20 + b"\0" * 8),
    "more restarts than bytes": lambda: bare(b"\0\0\0\0\xff\xff\xff\xff"),
    "a block of two bytes": lambda: bare(b"\0\0"),
    "a block beyond the end": lambda: table([], index=block([(b"a", varint(0) + varint(2**40))])),
    "a field longer than its message": lambda: entries([(NAME, b"\x12\x7f")]),
    "a field of a group": lambda: entries([(NAME, b"\x13\x13\x13")]),
    "a shape that is a number": lambda: entries([(NAME, field(2, 3) + field(5, field(1, 1)))]),
    "other bytes after its blocks": lambda: sealed(b"") + one(),
    "two biLMs": lambda: entries([(b"a/char_embed", entry((1,), 4)), (NAME, entry((1,), 4))]),
    "no biLM": lambda: entries([(b"beta1_power", entry((), 4))]),
}

TENSORFLOW = [
    *(
        Hostile(f"tensorflow: {name}", partial(index, content=content))
        for name, content in INDICES.items()
    ),
    Hostile("tensorflow: a module of highways", partial(module, content=lambda: crowd(9_000))),
    Hostile("tensorflow: a module of characters", partial(module, content=one)),
    Hostile("tensorflow: 900 layers share one cell", shared_cells),
    *(
        Hostile(
            f"tensorflow: {target} for {suffix}", partial(replaced, suffix=suffix, target=target)
        )
        for suffix in (".index", ".data-00000-of-00001", "options.json")
        for target in ("pipe", "/dev/zero")
    ),
    *(
        Hostile(f"tensorflow: latest {name}", partial(latest, name=name))
        for name in ("{bait}/model", "../bait/text", "..", "", "C:\\\\x\\\\model.ckpt-50", "\0")
    ),
]
