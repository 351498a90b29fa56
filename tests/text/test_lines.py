"""Lines of text files: what they are by the file's name, and compressed."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from elmox.errors import ElmoxError
from elmox.text.lines import LineFormat, line_format, read_lines


@pytest.mark.parametrize(
    ("name", "tokenized", "format"),
    [
        ("a.jsonl", False, "jsonl"),
        ("folder/a.JSONL", True, "jsonl"),
        ("a.NDJSON", False, "jsonl"),
        ("a.jsonl.xz", False, "jsonl"),
        ("a.ndjson.GZ", False, "jsonl"),
        ("a.txt.gz", True, "tokenized"),
        ("jsonl", False, "raw"),
        ("-", True, "tokenized"),
        ("-", False, "raw"),
    ],
)
def test_formats_by_name(name: str, tokenized: bool, format: LineFormat) -> None:
    assert line_format(name, tokenized) == format


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".XZ", lzma.compress), (".bz2", bz2.compress)]
)
def test_compressed(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"\xef\xbb\xbfa b\r\n\nc\n\xff\n"))
    lines = read_lines(str(path), "tokenized", str.split)
    assert [next(lines).sentences for _ in range(3)] == [[["a", "b"]], [], [["c"]]]
    with pytest.raises(ElmoxError, match=f"text{suffix}, line 4: byte 1 is not UTF-8"):
        next(lines)
    assert next(read_lines(str(path), "tokenized", str.split, skip=2)).sentences == [["c"]]
    path.write_bytes(b"never compressed\n")
    with pytest.raises(ElmoxError, match=f"text{suffix} (is damaged|cannot be read)"):
        next(read_lines(str(path), "tokenized", str.split))
