"""Text files, plain and compressed, whole and damaged."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from elmox.errors import ElmoxError
from elmox.io.text_files import open_text

TEXT = "naïve 天\nsecond\u2028still second\n"
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".BZ2": bz2.compress,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_lines(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKERS[suffix](TEXT.encode()))
    with open_text(path) as file:
        assert list(file) == ["naïve 天\n", "second\u2028still second\n"]


@pytest.mark.parametrize("suffix", [".txt", ".xz"])
def test_byte_order_mark_and_windows_line_ends(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACKERS[suffix](b"\xef\xbb\xbfone\r\ntwo\r\n"))
    with open_text(path) as file:
        assert file.read() == "one\ntwo\n"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".BZ2"])
def test_damage_is_told_whenever_it_is_met(tmp_path: Path, suffix: str) -> None:
    whole = PACKERS[suffix](TEXT.encode() * 1000)
    for content in (whole[: len(whole) // 2], b"not compressed"):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(content)
        with pytest.raises(ElmoxError, match=f"text{suffix} (is damaged|cannot be read)"):
            _read(path)


def test_other_trouble(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="nowhere does not exist"):
        _read(tmp_path / "nowhere")
    with pytest.raises(ElmoxError, match="cannot be read: Is a directory"):
        _read(tmp_path)
    (tmp_path / "latin").write_bytes("naïve".encode("latin-1"))
    with pytest.raises(ElmoxError, match="latin is not UTF-8"):
        _read(tmp_path / "latin")


def _read(path: Path) -> str:
    with open_text(path) as file:
        return file.read()
