"""Archives, folders and single files that lead elsewhere, block, or never end."""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from broken import rng
from broken_folders import native
from checkpoints import random_options, write_ai2, write_allennlp_archive, write_many_langs
from hostile import Hostile

Tar = Callable[[tarfile.TarFile, Path], object]


def tarball(folder: Path, bait: Path, fill: Tar, mode: str = "w:gz") -> Path:
    """A tarball, sound except for what `fill` adds to it first."""
    sound = write_allennlp_archive(folder, random_options(), rng(), options_at="archive")
    path = folder / "hostile.tar.gz"
    with tarfile.open(sound) as old, tarfile.open(path, mode) as new:  # type: ignore[call-overload]
        fill(new, bait)
        for member in old.getmembers():
            new.addfile(member, old.extractfile(member))
    for name in ("model.tar.gz", "best.th", "options.json"):
        (folder / name).unlink(missing_ok=True)
    return path


def entry(
    tar: tarfile.TarFile, bait: Path, name: str, kind: bytes, target: str = "", size: int = 0
) -> None:
    """Add an entry of any kind, without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, str(bait / target) if target else ""
    info.size = size
    assert tar.fileobj is not None
    tar.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))


def linked_folder(tar: tarfile.TarFile, bait: Path) -> None:
    """Add a link to the bait's folder, and a file in it."""
    entry(tar, bait, "sub", tarfile.SYMTYPE, ".")
    entry(tar, bait, "sub/options.json", tarfile.REGTYPE)


def raw(tar: tarfile.TarFile, bait: Path, header: bytes, content: bytes = b"") -> None:
    """Add bytes, padded to whole blocks."""
    assert tar.fileobj is not None
    tar.fileobj.write(header)
    tar.fileobj.write(content + bytes(-len(content) % 512))


def header(kind: bytes, size: int, name: str = "file", size_field: bytes | None = None) -> bytes:
    """A header of a tar file, with any size field."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = size_field if size_field is not None else f"{size:011o}\0".encode()
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def pax(content: bytes, kind: bytes = b"x") -> bytes:
    """A pax header of any content."""
    return header(kind, len(content)) + content + bytes(-len(content) % 512)


def record(key: str, value: str) -> bytes:
    """A record of a pax header, with its length."""
    text = f" {key}={value}\n".encode()
    length = len(text) + len(str(len(text) + len(str(len(text)))))
    return str(length).encode() + text


NEGATIVE = b"\xff" * 12  # a size of -1
TARS: dict[str, Tar] = {
    **{
        f"{word} link {name} to {target}": partial(entry, name=name, kind=kind, target=target)
        for word, kind in (("symbolic", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE))
        for name, target in (("weights.th", "pipe"), ("config.json", "secrets.json"),
                             ("options.json", "options.json"), ("fta/options_file", "text"))
    },
    "a link to a folder, and a file in it": linked_folder,
    "a pipe": partial(entry, name="options.json", kind=tarfile.FIFOTYPE),
    "a device": partial(entry, name="options.json", kind=tarfile.CHRTYPE),
    "a sparse file": partial(entry, name="options.json", kind=tarfile.GNUTYPE_SPARSE, size=10**9),
    "an unknown kind": partial(entry, name="options.json", kind=b"Z"),
    "a negative size": partial(raw, header=header(b"0", 0, "a", NEGATIVE)),
    "a negative header": partial(raw, header=header(b"x", 0, "a", NEGATIVE)),
    "a size of 2^80": partial(raw, header=header(b"0", 0, "a", b"\x80\x01" + bytes(10))),
    "a size that is text": partial(raw, header=header(b"0", 0, "a", b"hello world\0")),
    "a negative size by pax": partial(raw, header=pax(record("size", "-512"))),
    "a long size by pax": partial(raw, header=pax(record("size", "9" * 500))),
    "a name outside by pax": partial(
        raw, header=pax(record("path", "../escaped")) + header(b"0", 0, "a")
    ),
    "an absolute name by pax": partial(
        raw, header=pax(record("path", "/tmp/escaped")) + header(b"0", 0, "a")
    ),
    "a name outside by GNU": partial(
        raw, header=header(b"L", 10) + b"../escaped".ljust(512, b"\0") + header(b"0", 0, "a")
    ),
    "pax of a megabyte of digits": partial(raw, header=pax(b"1" * 2**20)),
    "pax of half a megabyte of digits": partial(raw, header=pax(b"1" * 2**19 + b" ")),
    "pax records of no length": partial(raw, header=pax(b"0 a=b\n" * 100)),
    "pax records too long": partial(raw, header=pax(b"9999999 a=b\n")),
    "pax for sparse files": partial(
        raw, header=pax(record("GNU.sparse.major", "1") + record("GNU.sparse.size", "9" * 15))
        + header(b"0", 0, "options.json"),
    ),
    "5,000 pax headers in a row": partial(raw, header=pax(b"6 a=b\n") * 5000),
    "a global pax header": partial(raw, header=pax(record("path", "../escaped"), b"g")),
    "a name for a terminal": partial(entry, name="\x1b[2J\x07\n.json", kind=tarfile.REGTYPE),
    "a name with a null by pax": partial(
        raw, header=pax(record("path", "a\0.json")) + header(b"0", 0, "a")
    ),
    "a name of 4,000 letters": partial(entry, name=f"{'a' * 4000}.json", kind=tarfile.REGTYPE),
    "a name that is a folder": partial(entry, name="options.json/", kind=tarfile.REGTYPE),
}  # fmt: skip


def many_members(folder: Path, bait: Path, num: int, name: str) -> Path:
    """A tarball of many empty files."""
    path = folder / "many.tar.gz"
    with gzip.open(path, "wb", 1) as file:
        for first in range(0, num, 1000):
            names = (name.format(i) for i in range(first, first + 1000))
            file.write(b"".join(tarfile.TarInfo(n).tobuf(tarfile.USTAR_FORMAT) for n in names))
        file.write(bytes(1024))
    return path


def many_in_zip(folder: Path, bait: Path, num: int, name: str) -> Path:
    """A zip of many empty files."""
    locals_, directory, offset = [], [], 0
    for i in range(num):
        text = name.format(i).encode()
        fields = struct.pack("<5H3I2H", 20, 0, 0, 0, 0, 0, 0, 0, len(text), 0)
        locals_.append(b"PK\x03\x04" + fields + text)
        more = struct.pack("<3H2I", 0, 0, 0, 0, offset)
        directory.append(b"PK\x01\x02" + struct.pack("<H", 20) + fields + more + text)
        offset += len(locals_[-1])
    listed = b"".join(directory)
    end = struct.pack("<4H2IH", 0, 0, num % 65536, num % 65536, len(listed), offset, 0)
    path = folder / "many.zip"
    path.write_bytes(b"".join(locals_) + listed + b"PK\x05\x06" + end)
    return path


def zipped(folder: Path, bait: Path, files: dict[str, bytes], compression: int) -> Path:
    """A zip with any names."""
    path = folder / "hostile.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return path


def zip_link(folder: Path, bait: Path) -> Path:
    """A zip with a symbolic link instead of the options."""
    path = folder / "hostile.zip"
    info = zipfile.ZipInfo("options.json")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, str(bait / "options.json"))
        archive.write(write_ai2(folder, random_options(), rng()), "weights.hdf5")
    (folder / "weights.hdf5").unlink()
    return path


def edited_zip(folder: Path, bait: Path, offset: int, value: bytes) -> Path:
    """A zip with a different last record."""
    path = zipped(folder, bait, {"options.json": b"{}"}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x05\x06") + offset
    content[at : at + len(value)] = value
    path.write_bytes(content)
    return path


def bomb(folder: Path, bait: Path, pack: Callable[[bytes], bytes]) -> Path:
    """200 MB of zeros as a tar file."""
    path = folder / "bomb.tar.gz"
    info = tarfile.TarInfo("weights.th")
    info.size = 200 * 2**20
    path.write_bytes(pack(info.tobuf(tarfile.USTAR_FORMAT) + bytes(info.size)))
    return path


def xz_dictionary(folder: Path, bait: Path) -> Path:
    """A tarball that needs a dictionary of 1.5 GB for unpacking."""
    path = folder / "large.tar.xz"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    content = bytearray(lzma.compress(header(b"0", 0, "options.json") + bytes(1024),
                                      filters=filters, check=lzma.CHECK_NONE))  # fmt: skip
    start = 12  # of the block header: its size, flags, the filter, its properties
    length = (content[start] + 1) * 4
    at = content.index(bytes([0x21, 1]), start) + 2
    content[at] = 40  # 4 GiB - 1
    body = content[start : start + length - 4]
    content[start + length - 4 : start + length] = struct.pack("<I", zlib.crc32(body))
    path.write_bytes(content)
    return path


def named_options(folder: Path, bait: Path, name: str, packed: bool) -> Path:
    """An AllenNLP model whose configuration names options elsewhere."""
    archive = write_allennlp_archive(folder, random_options(), rng(), options_at="missing")
    config = {"model": {"elmo": {"options_file": name.format(bait=bait)}}}
    if packed:
        content = gzip.decompress(archive.read_bytes())
        archive.unlink()
        path = folder / "model.tar.gz"
        with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(path, "w:gz") as new:
            for member in old.getmembers():
                if member.name != "config.json":
                    new.addfile(member, old.extractfile(member))
            text = json.dumps(config).encode()
            info = tarfile.TarInfo("config.json")
            info.size = len(text)
            new.addfile(info, io.BytesIO(text))
        (folder / "best.th").unlink()
        return path
    archive.unlink()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def config_path(folder: Path, bait: Path, name: str) -> Path:
    """An ELMoForManyLangs folder whose configuration is named elsewhere."""
    write_many_langs(folder, "word_char", rng())
    text = json.dumps({"config_path": name.format(bait=bait)})
    (folder / "config.json").write_text(text)
    return folder


def replaced(folder: Path, bait: Path, build: Callable[[Path], Path], name: str, by: str) -> Path:
    """A sound model with a pipe or a device in place of a file."""
    path = build(folder)
    file = next(folder.rglob(name))
    file.unlink()
    if by == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(by)
    return path


def ai2(folder: Path) -> Path:
    return write_ai2(folder, random_options(), rng())


def ours(folder: Path) -> Path:
    return native(folder, "unicode", extras=True)


def langs(folder: Path) -> Path:
    return write_many_langs(folder, "word_char", rng())


def allennlp(folder: Path) -> Path:
    write_allennlp_archive(folder, random_options(), rng()).unlink()
    return folder


def given(folder: Path, bait: Path, name: str) -> Path:
    """Something that is no file at all, or one of the bait's."""
    return Path(name) if name.startswith("/") else bait / name


def sound(folder: Path, bait: Path) -> Path:
    """A sound model, to be loaded with other files."""
    return write_ai2(folder, random_options(), rng())


_PARTS: Iterable[tuple[Callable[[Path], Path], str]] = (
    (ai2, "weights.hdf5"), (ai2, "options.json"),
    (ours, "config.json"), (ours, "model.safetensors"), (ours, "words.json"),
    (ours, "characters.json"), (ours, "state.safetensors"), (ours, "mixes.safetensors"),
    (langs, "config.json"), (langs, "cnn_tiny.json"), (langs, "char.dic"), (langs, "word.dic"),
    (langs, "encoder.pkl"), (langs, "token_embedder.pkl"),
    (allennlp, "best.th"), (allennlp, "options.json"),
)  # fmt: skip
_OPTIONS = (
    "{bait}/options.json", "{bait}/secrets.json", "{bait}/pipe", "{bait}/text", "/dev/zero",
    "../bait/options.json", "file://{bait}/options.json", "..", "", "\0", "config.json",
)  # fmt: skip

ARCHIVED = [
    *(Hostile(f"tar: {kind}", partial(tarball, fill=fill)) for kind, fill in TARS.items()),
    *(
        Hostile(f"{build.__name__}: {num:,} files called {name}",
                partial(build, num=num, name=name))
        for build in (many_members, many_in_zip)
        for num, name in ((300_000, "{}"), (300_000, "{}.json"), (20_000, "{}/"))
    ),
    *(
        Hostile(f"zip: {name!r}",
                partial(zipped, files={name: b"{}"}, compression=zipfile.ZIP_STORED))
        for name in ("/tmp/escaped.json", "../escaped.json", "a/../../b.json", "C:\\a.json",
                     "..\\a.json", "a" * 4000 + ".json", "\x1b[2J.json", ".json", "a/.json")
    ),
    *(
        Hostile(f"zip: {name} of 200 MB", partial(
            zipped, files={"weights.hdf5": bytes(200 * 2**20)}, compression=code))
        for name, code in (("deflate", zipfile.ZIP_DEFLATED), ("bzip2", zipfile.ZIP_BZIP2),
                           ("lzma", zipfile.ZIP_LZMA))
    ),
    *(Hostile(f"tar: {pack.__module__} of 200 MB", partial(bomb, pack=pack))
      for pack in (gzip.compress, bz2.compress, lzma.compress)),
    Hostile("tar: a dictionary of 4 GB", xz_dictionary),
    Hostile("zip: a symbolic link", zip_link),
    *(
        Hostile(f"zip: {kind}", partial(edited_zip, offset=offset, value=value))
        for kind, offset, value in (
            ("65535 entries", 8, b"\xff\xff\xff\xff"), ("a directory of 4 GB", 12, b"\xff" * 4),
            ("a directory far away", 16, b"\xff\xff\xff\x7f"), ("on another disk", 4, b"\x09\0"),
            ("a comment that is not there", 20, b"\xff\xff"),
        )
    ),
    *(
        Hostile(f"AllenNLP {'archive' if packed else 'folder'}: options in {name!r}",
                partial(named_options, name=name, packed=packed))
        for name in _OPTIONS
        for packed in (True, False)
    ),
    *(Hostile(f"ELMoForManyLangs: configuration in {name!r}", partial(config_path, name=name))
      for name in _OPTIONS),
    *(
        Hostile(f"{build.__name__}: {by} for {name}",
                partial(replaced, build=build, name=name, by=by))
        for build, name in _PARTS
        for by in ("pipe", "/dev/zero")
    ),
    *(Hostile(f"given {name}", partial(given, name=name))
      for name in ("/dev/zero", "/dev/full", "/dev/random", "/dev/null", "pipe", "socket",
                   "/proc/self/mem")),
    *(
        Hostile(f"{key} = {value}", sound, {key: value})
        for key in ("options", "vocab", "token_embeddings")
        for value in ("/dev/zero", "pipe", "socket")
    ),
]  # fmt: skip
