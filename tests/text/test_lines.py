"""Lines of text files: what they are by the file's name, and compressed."""

from pathlib import Path

import pytest
from compressed import COMPRESS

from elmox.errors import ElmoxError
from elmox.text.lines import LineFormat, line_format, read_lines
from elmox.text.tokenize import get_tokenizer


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


@pytest.mark.parametrize(
    ("format", "line", "offsets"),
    [
        ("raw", "It's.  So ", [[(0, 2), (2, 4), (4, 5)], [(7, 9)]]),
        ("tokenized", " a  b. c", [[(1, 2), (4, 6), (7, 8)]]),
        ("jsonl", '{"text": "Ja. No"}', [[(0, 2), (2, 3)], [(4, 6)]]),
        ("jsonl", '{"tokens": ["a"]}', None),
        ("raw", "", []),
    ],
)
def test_offsets(
    tmp_path: Path, format: LineFormat, line: str, offsets: list[list[tuple[int, int]]] | None
) -> None:
    (tmp_path / "text").write_text(f"{line}\n")
    [read] = read_lines(str(tmp_path / "text"), format, get_tokenizer("treebank"))
    assert read.offsets() == offsets
