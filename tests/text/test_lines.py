"""Lines of text files: what they are by the file's name, and compressed."""

from pathlib import Path

import pytest
from compressed import COMPRESS

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
        ("a.jsonl.zst", False, "jsonl"),
        ("a.txt.zst", True, "tokenized"),
        ("jsonl", False, "raw"),
        ("-", True, "tokenized"),
        ("-", False, "raw"),
    ],
)
def test_formats_by_name(name: str, tokenized: bool, format: LineFormat) -> None:
    assert line_format(name, tokenized) == format


@pytest.mark.parametrize("suffix", COMPRESS)
def test_lines_before_a_bad_one(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"\xef\xbb\xbfa b\r\n\nc\n\xff\n"))
    lines = read_lines(str(path), "tokenized", str.split)
    assert [next(lines).sentences for _ in range(3)] == [[["a", "b"]], [], [["c"]]]
    with pytest.raises(ElmoxError, match=f"text{suffix}, line 4: byte 1 is not UTF-8"):
        next(lines)
    assert next(read_lines(str(path), "tokenized", str.split, skip=2)).sentences == [["c"]]
