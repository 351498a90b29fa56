"""Archives that lie, bite or end too soon, and pickles that would run code."""

import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from broken import Broken, cut, rng
from checkpoints import random_options, write_allennlp_archive, write_many_langs, write_nlpl_zip
from checkpoints_allennlp import write_tar

MEGABYTE = bytes(2**20)


class Malice:
    """A pickle of this creates a file when it is loaded without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def malicious_pickle(folder: Path) -> bytes:
    """A pickle that would create folder/escaped."""
    return pickle.dumps({"weight": Malice(folder / "escaped")}, protocol=2)


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    """Writes a compressed zip with any names whatever."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def escaping(folder: Path, write: Callable[[Path, Mapping[str, bytes]], Path], name: str) -> Path:
    """An archive whose member `name` (with the folder for {}) points out of it."""
    files = {"options.json": b"{}", name.format(folder): b"out of the box"}
    return write(folder / "archive", files)


def linking(folder: Path) -> Path:
    """A tarball with a link to an outside file instead of the weights."""
    (folder / "secret.hdf5").write_bytes(b"not yours")
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("weights.hdf5")
        link.type, link.linkname = tarfile.SYMTYPE, str(folder / "secret.hdf5")
        archive.addfile(link)
    return path


def zip_bomb(folder: Path) -> Path:
    """200 MB of zeros in 200 kB."""
    path = folder / "bomb.zip"
    compressed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
    with compressed as archive, archive.open("model.hdf5", "w") as member:
        for _ in range(200):
            member.write(MEGABYTE)
    return path


def lying_zip_bomb(folder: Path) -> Path:
    """The same, with a size of one byte in both of its headers."""
    path = zip_bomb(folder)
    size = struct.pack("<I", 200 * 2**20)
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, struct.pack("<I", 1)))
    return path


def tar_bomb(folder: Path, name: str) -> Path:
    """200 MB of zeros in 200 kB."""
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 200 * 2**20
        archive.addfile(member, io.BytesIO(MEGABYTE * 200))
    return path


def tar_header_bomb(folder: Path) -> Path:
    """A member whose name is 200 MB long: tarfile reads names into memory."""
    path = folder / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("././@LongLink")
        member.type, member.size = tarfile.GNUTYPE_LONGNAME, 200 * 2**20
        assert archive.fileobj is not None
        archive.fileobj.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(200):
            archive.fileobj.write(MEGABYTE)
    return path


def encrypted_zip(folder: Path) -> Path:
    """A zip whose members say that they are encrypted."""
    path = write_nlpl_zip(folder, random_options(), rng())
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 4)
    path.write_bytes(content)
    return path


def damaged_zip(folder: Path) -> Path:
    """A zip with other bytes in the middle of its weights."""
    path = write_nlpl_zip(folder, random_options(), rng())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    return path


def cut_zip(folder: Path, share: float) -> Path:
    """A zip that was not transferred whole."""
    return cut(write_nlpl_zip(folder, random_options(), rng()), share)


def cut_tar(folder: Path, share: float) -> Path:
    """A tarball that was not transferred whole."""
    return cut(write_allennlp_archive(folder, random_options(), rng()), share)


def tar_with_other_end(folder: Path) -> Path:
    """A tarball whose checksum does not fit its content."""
    path = write_allennlp_archive(folder, random_options(), rng())
    content = bytearray(path.read_bytes())
    content[-8] ^= 0xFF
    path.write_bytes(content)
    return path


def same_name_twice(folder: Path) -> Path:
    """A zip with two weight files of the same name in different folders."""
    files = {"a/model.hdf5": b"one", "b/model.hdf5": b"two", "options.json": b"{}"}
    return write_zip(folder / "two.zip", files)


def pickle_in_folder(folder: Path, name: str) -> Path:
    """An ELMoForManyLangs folder with a malicious pickle."""
    write_many_langs(folder, "word_char", rng())
    (folder / name).write_bytes(malicious_pickle(folder))
    return folder


def pickle_in_tar(folder: Path) -> Path:
    """An AllenNLP archive with malicious weights."""
    files = {"config.json": b"{}", "weights.th": malicious_pickle(folder)}
    return write_tar(folder / "model.tar.gz", files)


def pickle_in_zip(folder: Path) -> Path:
    """A torch zip file, as torch.save writes today, with a malicious pickle inside."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", malicious_pickle(folder))
        archive.writestr("archive/version", "3\n")
    return write_tar(folder / "model.tar.gz", {"weights.th": content.getvalue()})


_OUTSIDE = ("../escaped", "a/../../escaped", "{}/escaped", "..\\escaped", "C:\\escaped")

ARCHIVES = [
    *(
        Broken(
            f"{kind} with {name}", partial(escaping, write=write, name=name), ("outside", "escaped")
        )
        for kind, write in (("zip", write_zip), ("tar", write_tar))
        for name in _OUTSIDE
    ),
    Broken("tar with a link", linking, ("no known model",)),
    Broken("zip bomb", zip_bomb, ("bomb.zip", "100 times")),
    Broken("lying zip bomb", lying_zip_bomb, ("bomb.zip",)),
    Broken("tar bomb", partial(tar_bomb, name="weights.th"), ("model.tar.gz", "100 times")),
    Broken("tar bomb with another name", partial(tar_bomb, name="other"), ("100 times",)),
    Broken("tar bomb in a name", tar_header_bomb, ("model.tar.gz", "header")),
    Broken("encrypted zip", encrypted_zip, ("225.zip", "encrypted")),
    Broken("damaged zip", damaged_zip, ("225.zip",)),
    *(
        Broken(f"zip cut to {share}", partial(cut_zip, share=share), ("225.zip", "damaged"))
        for share in (0.001, 0.5, 0.99)
    ),
    *(
        Broken(f"tar cut to {share}", partial(cut_tar, share=share), ("model.tar.gz", "damaged"))
        for share in (0.0005, 0.01, 0.5, 0.9, 0.999)
    ),
    Broken("tar with another checksum", tar_with_other_end, ("model.tar.gz", "damaged")),
    Broken("zip with the same name twice", same_name_twice, ("two.zip", "two files", "model.hdf5")),
    Broken(
        "zip with nothing known",
        lambda folder: write_zip(folder / "a.zip", {"readme.md": b"hello"}),
        ("a.zip", "no known model"),
    ),
    Broken(
        "tar with nothing known",
        lambda folder: write_tar(folder / "a.tar.gz", {"readme.md": b"hello"}),
        ("a.tar.gz", "no known model"),
    ),
    Broken(
        "zip with json only",
        lambda folder: write_zip(folder / "a.zip", {"options.json": b"{}"}),
        ("a.zip", "no known model"),
    ),
    *(
        Broken(
            f"malicious {name}", partial(pickle_in_folder, name=name), (name, "not loaded", "code")
        )
        for name in ("encoder.pkl", "token_embedder.pkl")
    ),
    Broken("malicious weights.th", pickle_in_tar, ("weights.th", "not loaded", "code")),
    Broken("malicious weights.th, new format", pickle_in_zip, ("weights.th", "not loaded", "code")),
]
