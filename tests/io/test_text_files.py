"""The opener of text: line ends, stdin, bad bytes, progress; the rest is in test_text_readers."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest
from compressed import COMPRESS
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox.errors import UnreadableFile
from elmox.io import text_files
from elmox.io.text_files import check_text, open_bytes, open_text, text_suffix

TEXT = "naïve 天\nsecond\u2028still second\n"


def read(path: Path | str) -> str:
    with open_text(path) as file:
        return file.read()


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_lines(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(TEXT.encode()))
    with open_text(path) as file:
        assert list(file) == ["naïve 天\n", "second\u2028still second\n"]


@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_byte_order_mark_and_windows_line_ends(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(b"\xef\xbb\xbfone\r\ntwo\r\n"))
    assert read(path) == "one\ntwo\n"
    with open_text(path, newline="\n") as file:
        assert list(file) == ["one\r\n", "two\r\n"]


def test_several_parts_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(COMPRESS[".gz"](b"one\n") + COMPRESS[".gz"](b"two\n"))
    assert read(path) == "one\ntwo\n"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.JSONL", ".jsonl"),
        ("a.jsonl.zst", ".jsonl"),
        ("a.csv.GZ", ".csv"),
        ("folder.gz/a", ""),
        ("a.txt", ".txt"),
        ("-", ""),
    ],
)
def test_suffix_below_the_compression(name: str, suffix: str) -> None:
    assert text_suffix(name) == text_suffix(Path(name)) == suffix


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=12) | st.text(max_size=6).map(str.encode), size=st.integers(1, 8))
def test_utf8_is_checked_across_buffers(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int
) -> None:
    """The text before a bad byte is readable, and the message has the position of the byte."""
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_BUFFER_BYTES", size)
        lines: list[str] = []
        try:
            expected = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            start = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
            before = data[:start]
            line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
            with (
                pytest.raises(UnreadableFile, match=rf"line {line}: byte {column} is not UTF-8"),
                open_text(path, newline="\n") as file,
            ):
                lines.extend(file)
            complete = before[: before.rfind(b"\n") + 1].decode("utf-8-sig")
            assert "".join(lines) == complete
        else:
            with open_text(path, newline="\n") as file:
                assert file.read() == expected


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(TEXT.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert read("-") == TEXT
    assert not stdin.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\xff")))
    with pytest.raises(UnreadableFile, match=r"^stdin, line 2: byte 2 is not UTF-8 \(0xff\)"):
        read(Path("-"))
    monkeypatch.setattr(sys, "stdin", None)
    for function in (check_text, read, open_bytes):
        with pytest.raises(UnreadableFile, match=r"^stdin is closed: pipe text into it"):
            function("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with a name")
def test_a_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "pipe.zst"
    os.mkfifo(path)
    content = COMPRESS[".zst"](TEXT.encode())
    writer = threading.Thread(target=path.write_bytes, args=[content])
    writer.start()
    with open_bytes(path) as file:
        assert file.read() == TEXT.encode()
        assert file.num_bytes_read == 0
    writer.join()


def test_progress_in_bytes_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(COMPRESS[".gz"](TEXT.encode() * 1000))
    with open_bytes(path) as file:
        assert file.num_bytes_read == 0
        assert len(file.read()) == len(TEXT.encode()) * 1000
        assert file.num_bytes_read == path.stat().st_size


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has zstd")
def test_without_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.zst").write_bytes(COMPRESS[".zst"](b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnreadableFile, match=r"pip install 'elmox\[zstd\]'"):
        open_text(tmp_path / "text.zst")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.touch(mode=0)
    with pytest.raises(UnreadableFile, match="text cannot be read: permission denied"):
        read(path)
