"""Torch files that would run code, or expand to any size."""

import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from broken import rng
from checkpoints import random_options, write_allennlp_archive, write_many_langs
from hostile import Hostile

MEGABYTE = 2**20


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def in_zip(pickled: bytes, storage: bytes = bytes(28), compression: int = 0) -> bytes:
    """A pickle and one storage as torch.save packs them today."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", storage, compression or zipfile.ZIP_STORED)
        archive.writestr("archive/version", "3\n")
    return content.getvalue()


def in_legacy(pickled: bytes, storage: bytes = bytes(28), num: int = 7) -> bytes:
    """The same as torch.save wrote them until 2020."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    head = b"".join(pickle.dumps(part, protocol=2) for part in parts)
    return head + pickled + pickle.dumps(["0"], protocol=2) + struct.pack("<q", num) + storage


def number(value: int) -> bytes:
    """An integer for a pickle."""
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def tensor_pickle(
    *, num: int = 7, shape: int = 7, stride: int = 1, offset: int = 0, kind: str = "Float",
    names: int = 1,
) -> bytes:  # fmt: skip
    """A dict of tensors, each a view of storage 0, which is declared in any way."""
    view = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage"
        + f"ctorch\n{kind}Storage\n".encode()
        + b"X\x01\0\0\x000X\x03\0\0\0cpu" + number(num) + b"tQ" + number(offset)
        + number(shape) + b"\x85" + number(stride) + b"\x85\x89ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip
    items = (
        b"X" + struct.pack("<I", len(name)) + name + view
        for name in (f"forward_layer_{i}.input_linearity.weight".encode() for i in range(names))
    )
    return b"\x80\x02}(" + b"".join(items) + b"u."


def legacy_tar() -> bytes:
    """Torch's oldest format, which is a tar file."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in ("storages", "tensors", "pickle"):
            archive.addfile(tarfile.TarInfo(f"../{name}"))
    return content.getvalue()


def script() -> bytes:
    """A TorchScript archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in ("data.pkl", "constants.pkl", "code/__torch__.py", "version"):
            archive.writestr(f"archive/{name}", b"\x80\x02}.")
    return content.getvalue()


def nested(depth: int) -> bytes:
    """A dict with a name that is a tuple in a tuple in a tuple..."""
    return b"\x80\x02}()" + b"\x85" * depth + b"K\x01u."


def called(*call: Any) -> bytes:
    """A pickle that calls a function."""
    return pickle.dumps({"weight": Call(*call)}, protocol=2)


PICKLES: dict[str, Callable[[], bytes]] = {
    "calls os.system": lambda: in_legacy(called(os.system, "echo SECRETS")),
    "calls os.system, zip": lambda: in_zip(called(os.system, "echo SECRETS")),
    "calls eval": lambda: in_zip(called(eval, "print('SECRETS')")),
    "calls open": lambda: in_zip(called(open, "/dev/zero")),
    "calls torch.load": lambda: in_zip(called(torch.load, "/dev/zero")),
    "calls torch.zeros": lambda: in_zip(called(torch.zeros, 10**11)),
    "calls bytearray": lambda: in_zip(called(bytearray, 10**11)),
    "a plain malicious pickle": lambda: called(os.system, "echo SECRETS"),
    "stride 0, 10^11 numbers": lambda: in_zip(tensor_pickle(shape=10**11, stride=0)),
    "stride 0, 10^11 numbers, legacy": lambda: in_legacy(tensor_pickle(shape=10**11, stride=0)),
    "stride 0, 10^11 halves": lambda: in_zip(
        tensor_pickle(num=14, shape=10**11, stride=0, kind="Half")
    ),
    "10^11 numbers declared": lambda: in_zip(tensor_pickle(num=10**11, shape=10**11)),
    "10^11 numbers declared, legacy": lambda: in_legacy(
        tensor_pickle(num=10**11, shape=10**11), num=10**11
    ),
    "numbers beyond the storage": lambda: in_zip(tensor_pickle(num=10**5, shape=10**5)),
    "an offset beyond the storage": lambda: in_zip(tensor_pickle(offset=10**9)),
    "a negative offset": lambda: in_zip(tensor_pickle(offset=-(10**6))),
    "a negative stride": lambda: in_zip(tensor_pickle(stride=-1)),
    "a negative shape": lambda: in_zip(tensor_pickle(shape=-7)),
    "a shape of 600 digits": lambda: in_zip(tensor_pickle(shape=10**600)),
    "a negative storage": lambda: in_legacy(tensor_pickle(num=-7), num=-7),
    "100,000 names of one storage": lambda: in_zip(
        tensor_pickle(num=MEGABYTE, shape=MEGABYTE, names=10**5), bytes(4 * MEGABYTE)
    ),
    "a compressed storage of 200 MB": lambda: in_zip(
        tensor_pickle(num=50_000_000, shape=50_000_000), bytes(2 * 10**8), zipfile.ZIP_DEFLATED
    ),
    "an LZMA storage": lambda: in_zip(tensor_pickle(), bytes(28), zipfile.ZIP_LZMA),
    "a strange storage": lambda: in_zip(tensor_pickle(kind="ComplexFloat")),
    "names in 300,000 tuples": lambda: in_zip(nested(300_000)),
    "names in 300,000 tuples, legacy": lambda: in_legacy(nested(300_000)),
    "a list in a list in a list": lambda: in_zip(b"\x80\x02" + b"](" * 10**6 + b"e" * 10**6 + b"."),
    "300,000 marks": lambda: in_zip(b"\x80\x02" + b"(" * 300_000 + b"."),
    "a memo that is not there": lambda: in_zip(b"\x80\x02}h\x05."),
    "an empty stack": lambda: in_zip(b"\x80\x02R."),
    "a text of 4 GB": lambda: in_zip(b"\x80\x02X\xff\xff\xff\xff."),
    "protocol 0": lambda: in_zip(pickle.dumps({"a": [1.0]}, protocol=0)),
    "protocol 5": lambda: in_zip(pickle.dumps({"a": [1.0]}, protocol=5)),
    "torch's tar format": legacy_tar,
    "TorchScript": script,
    "a zip of nothing": lambda: b"PK\x05\x06" + bytes(18),
    "a zip without a directory": lambda: b"PK\x03\x04" + bytes(1000),
}


def archive(folder: Path, bait: Path, content: Callable[[], bytes]) -> Path:
    """An AllenNLP serialization directory with other weights."""
    write_allennlp_archive(folder, random_options(), rng()).unlink()
    (folder / "best.th").write_bytes(content())
    return folder


def many_langs(folder: Path, bait: Path, content: Callable[[], bytes]) -> Path:
    """An ELMoForManyLangs folder with another encoder."""
    write_many_langs(folder, "word_char", rng())
    (folder / "encoder.pkl").write_bytes(content())
    return folder


PICKLED = [
    Hostile(f"{build.__name__}: {kind}", partial(build, content=content))
    for kind, content in PICKLES.items()
    for build in (archive, many_langs)
]
