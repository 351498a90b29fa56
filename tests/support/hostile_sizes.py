"""Configurations, headers and vocabularies that declare any size."""

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from broken import rng
from broken_folders import native
from checkpoints import random_options, write_ai2, write_many_langs, write_word_model
from hostile import Hostile

HUGE = (10**5, 10**9, 10**18, 10**100)
FILTERS = {
    "100,000 banks": [[1, 1]] * 10**5,
    "a billion filters": [[1, 10**9]],
    "filters 10^18 wide": [[10**18, 1]],
    "300 banks of 10^9": [[1, 10**9]] * 300,
}
Values = dict[str, Any]


def changed(path: Path, where: str, value: object) -> None:
    """Set one value of a JSON file."""
    values: Values = json.loads(path.read_text())
    *parents, key = where.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[key] = value
    path.write_text(json.dumps(values))


def options(folder: Path, bait: Path, where: str, value: object) -> Path:
    """Weights next to options with one other value."""
    path = write_ai2(folder, random_options(), rng())
    changed(folder / "options.json", where, value)
    return path


def config(folder: Path, bait: Path, where: str, value: object, kind: str = "bytes") -> Path:
    """Our directory with one other value in config.json."""
    model = native(folder, kind)
    changed(model / "config.json", where, value)
    return model


def many_langs(folder: Path, bait: Path, where: str, value: object) -> Path:
    """An ELMoForManyLangs folder with one other value."""
    write_many_langs(folder, "word_char", rng())
    changed(folder / "cnn_tiny.json", where, value)
    return folder


def overwritten(folder: Path, bait: Path, name: str, content: Callable[[], bytes]) -> Path:
    """Our directory, or weights, with a file of other content."""
    if name in ("options.json", "vocab.txt"):
        path = write_word_model(folder, random_options(), rng())
        (folder / name).write_bytes(content())
        return path
    if name.endswith(".dic"):
        write_many_langs(folder, "word_char", rng())
        (folder / name).write_bytes(content())
        return folder
    model = native(folder, "unicode" if name in ("words.json", "characters.json") else "bytes")
    (model / name).write_bytes(content())
    return model


def stretched(folder: Path, bait: Path, name: str, size: int) -> Path:
    """The same with a file that ends in a hole of any size."""
    path = overwritten(folder, bait, name, lambda: b"{}")
    file = (path if path.is_dir() else path.parent) / name
    with file.open("r+b") as opened:
        opened.truncate(size)
    return path


def safetensors(header: object, data: int = 8, length: int | None = None) -> bytes:
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


def one(**values: object) -> Values:
    """A header of one tensor."""
    return {"lstm.0.bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | values}


def many_tensors() -> bytes:
    """A hundred thousand tensors of no bytes, named as layers are."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return safetensors({f"lstm.{i}.bias": empty for i in range(10**5)}, data=0)


def many_layers(folder: Path, bait: Path) -> Path:
    """As many layers in the configuration as arrays of no bytes."""
    model = config(folder, bait, "lstm.num_layers", 10**5)
    (model / "model.safetensors").write_bytes(many_tensors())
    return model


HEADERS: dict[str, Callable[[], bytes]] = {
    "header of 2^63 bytes": lambda: safetensors({}, length=2**63),
    "header of 2^40 bytes": lambda: safetensors({}, length=2**40),
    "header of 99 MB that are not there": lambda: safetensors({}, length=99_000_000),
    "offsets beyond the end": lambda: safetensors(one(shape=[10**9], data_offsets=[0, 4 * 10**9])),
    "offsets backwards": lambda: safetensors(one(data_offsets=[8, 0])),
    "offsets negative": lambda: safetensors(one(data_offsets=[-8, 0])),
    "shape that overflows": lambda: safetensors(one(shape=[2**40, 2**40])),
    "shape negative": lambda: safetensors(one(shape=[-2])),
    "shape of a million dimensions": lambda: safetensors(one(shape=[1] * 10**6 + [2])),
    "shape of 100 dimensions": lambda: safetensors(one(shape=[1] * 100 + [2])),
    **{
        f"dtype {dtype}": partial(lambda d: safetensors(one(dtype=d, shape=[8])), dtype)
        for dtype in ("F8_E4M3", "F8_E8M0", "F4", "U8", "BOOL", "X9")
    },
    "dtype C64": lambda: safetensors(one(dtype="C64", shape=[1])),
    "header not UTF-8": lambda: safetensors(b'{"\xff": 1}'),
    "header nested": lambda: safetensors(b"[" * 10**6),
    "header a number": lambda: safetensors(b"9" * 10**5),
    "names of a megabyte": lambda: safetensors({"a" * 2**20: one()["lstm.0.bias"]}),
    "names for a terminal": lambda: safetensors({"\x1b[2J\x07\nelmox": one()["lstm.0.bias"]}),
    "a hundred thousand tensors": many_tensors,
    "metadata of numbers": lambda: safetensors(one() | {"__metadata__": {"a": 1}}),
    "nothing at all": lambda: b"",
}
TEXTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "options.json nested": ("options.json", lambda: b'{"a":' * 10**6),
    "options.json of lists": ("options.json", lambda: b"[" + b"[]," * 5 * 10**6 + b"[]]"),
    "options.json with a long number": ("options.json", lambda: b'{"lstm": ' + b"9" * 10**6 + b"}"),
    "options.json with infinity": ("options.json", lambda: b'{"lstm": {"dim": 1e999}}'),
    "options.json with a name of a megabyte": (
        "options.json", lambda: b'{"lstm": {"dim": "' + b"a" * 2**20 + b'"}}'),
    "config.json nested": ("config.json", lambda: b"[" * 10**6),
    "config.json of lists": ("config.json", lambda: b"[" + b"[]," * 5 * 10**6 + b"[]]"),
    "vocab.txt of empty lines": ("vocab.txt", lambda: b"\n" * 10**7),
    "vocab.txt of one line": ("vocab.txt", lambda: b"a" * 10**7),
    "vocab.txt for a terminal": ("vocab.txt", lambda: b"\x1b[2J\x07\n" * 10),
    "words.json of empty lists": ("words.json", lambda: b"[" + b"[]," * 10**6 + b"[]]"),
    "words.json nested": ("words.json", lambda: b"[" * 10**6),
    "characters.json of numbers": ("characters.json", lambda: b"[" + b"1," * 10**6 + b"1]"),
    "char.dic with ids of 5,000 digits": ("char.dic", lambda: b"a\t" + b"9" * 5000 + b"\n"),
    "char.dic with ids of other scripts": ("char.dic", lambda: "a\t٣\n".encode()),
    "word.dic of 3 million empty lines": ("word.dic", lambda: b"\n" * 3 * 10**6),
}  # fmt: skip

SIZES = [
    *(
        Hostile(f"options: {where} {value:.0e}", partial(options, where=where, value=value))
        for where in ("lstm.dim", "lstm.projection_dim", "lstm.n_layers", "lstm.cell_clip",
                      "char_cnn.n_highway", "char_cnn.embedding.dim",
                      "char_cnn.max_characters_per_token")
        for value in HUGE
    ),
    *(
        Hostile(f"config: {where} {value:.0e}", partial(config, where=where, value=value))
        for where in ("lstm.num_layers", "lstm.cell_dim", "lstm.projection_dim",
                      "char_cnn.num_highways", "char_cnn.embedding_dim", "char_cnn.max_characters",
                      "char_cnn.num_characters", "text.max_code_points")
        for value in HUGE
    ),
    *(
        Hostile(f"config: {where} {value:.0e}",
                partial(config, where=where, value=value, kind="unicode"))
        for where in ("words.num_words", "words.dim")
        for value in HUGE[:3]
    ),
    *(
        Hostile(f"ELMoForManyLangs: {where} {value:.0e}",
                partial(many_langs, where=where, value=value))
        for where in ("encoder.dim", "encoder.n_layers", "encoder.projection_dim",
                      "token_embedder.n_highway", "token_embedder.char_dim",
                      "token_embedder.word_dim", "token_embedder.max_characters_per_token")
        for value in HUGE[:3]
    ),
    *(
        Hostile(f"{build.__name__}: {kind}", partial(build, where=where, value=value))
        for kind, value in FILTERS.items()
        for build, where in ((options, "char_cnn.filters"), (config, "char_cnn.filters"),
                             (many_langs, "token_embedder.filters"))
    ),
    *(
        Hostile(f"safetensors: {kind}",
                partial(overwritten, name="model.safetensors", content=content))
        for kind, content in HEADERS.items()
    ),
    Hostile("safetensors: as many layers as arrays of no bytes", many_layers),
    *(
        Hostile(f"text: {kind}", partial(overwritten, name=name, content=content))
        for kind, (name, content) in TEXTS.items()
    ),
    *(
        Hostile(f"{name} of 2^40 bytes", partial(stretched, name=name, size=2**40))
        for name in ("options.json", "config.json", "vocab.txt", "words.json", "char.dic")
    ),
]  # fmt: skip
