"""Tar streams: the same members as `tarfile` sees, whatever wrote them."""

import io
import tarfile

import pytest

from elmox.pretrained.tar_stream import DamagedTar, tar_members

FILES = {
    "a.txt": b"hello",
    "folder" * 25 + "/" + "long" * 20 + ".json": b"x" * 1000,
    "ünï/天.txt": b"",
    "p" * 90 + "/" + "n" * 90: bytes(512),
}


def packed(format: int) -> bytes:
    """An archive of files, a folder, links and a device."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=format) as archive:
        for name, kind in (("folder", tarfile.DIRTYPE), ("link", tarfile.SYMTYPE),
                           ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.txt"
            archive.addfile(info)
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1234567890.5
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_all_formats(format: int) -> None:
    members = {}
    others = []
    for member in tar_members(io.BytesIO(packed(format))):
        if member.is_regular:
            members[member.name] = b"".join(iter(lambda m=member: m.read(100), b""))  # type: ignore[misc]
        else:
            others.append(member.name.rstrip("/"))
    assert members == FILES
    assert others == ["folder", "link", "hard", "pipe"]


def test_members_that_are_not_read_are_passed_over() -> None:
    names = [member.name for member in tar_members(io.BytesIO(packed(tarfile.PAX_FORMAT)))]
    assert names[-4:] == list(FILES)


@pytest.mark.parametrize("size", [100, 511, 2600, 4000])
def test_cut_short(size: int) -> None:
    with pytest.raises(DamagedTar, match="unexpected end"):
        list(tar_members(io.BytesIO(packed(tarfile.GNU_FORMAT)[:size])))
