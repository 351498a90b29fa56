"""CSV, TSV and JSON lines with named columns."""

import gzip
import json
from pathlib import Path

import pytest

from elmox.errors import ElmoxError
from elmox.tasks.data.tables import MissingColumn, is_table, read_table


def rows(path: Path, *expected: str) -> list[dict[str, object]]:
    return [row.values for row in read_table(path, expected)]


def write(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def test_quotes_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = 'label,text\r\ngood,"Fine, ""really""\nfine."\r\n\r\nbad, no \r\n'
    path = write(tmp_path, "a.csv", text, "utf-8-sig")
    table_rows = [*read_table(path, ("text", "label"))]
    assert [row.values for row in table_rows] == [
        {"label": "good", "text": 'Fine, "really"\nfine.'},
        {"label": "bad", "text": " no "},
    ]
    assert [row.where for row in table_rows] == [f"{path}, line 2", f"{path}, line 5"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_of_csv(separator: str, tmp_path: Path) -> None:
    quote = "" if separator == "\t" else '"'
    text = f"text{separator} label\n{quote}A, b; c{quote}{separator}x\n"
    path = write(tmp_path, "a.csv", text)
    assert rows(path, "text", "label") == [{"text": "A, b; c", "label": "x"}]


def test_tsv_has_no_quotes(tmp_path: Path) -> None:
    text = 'text\tlabel\n"Fine\tx\nsaid "so", he\ty\n'
    for name in ("a.tsv", "a.tab"):
        table_rows = rows(write(tmp_path, name, text), "text")
        assert table_rows == [
            {"text": '"Fine', "label": "x"},
            {"text": 'said "so", he', "label": "y"},
        ]


def test_json_lines_and_compression(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": str(i), "n": i}) + "\n\n" for i in range(2))
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    assert rows(path, "text") == [{"text": "0", "n": 0}, {"text": "1", "n": 1}]
    assert not is_table(path)
    assert is_table("a.csv.gz")
    assert is_table("A.TSV")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "review,stars\nGood,5\n", "line 1: the columns are 'review', 'stars', expected"),
        ("a.csv", "Good film,positive\n", "line 1: the columns are 'Good film', 'positive', exp"),
        ("a.csv", "", "line 1: the columns are none, expected 'text'"),
        ("a.csv", "text,label\na,b\nc\n", "line 3: 1 columns, expected 2 as in line 1"),
        ("a.csv", 'text,label\n"a,b\n', "line 2: unexpected end of data"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", "line 2: 3 columns, expected 2 as in line 1"),
        ("a.jsonl", '{"text": "a"}\n{"body": "b"}\n', "object 2: the keys are 'body', expected"),
        ("a.jsonl", "{}\n", "object 1: the keys are none, expected 'text'"),
        ("a.jsonl", "text\n", "line 1: not JSON"),
        ("a.txt", "text,label\n", "the suffix is '.txt', expected .csv, .tsv or .jsonl"),
    ],
)
def test_bad_tables(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(ElmoxError, match=message) as caught:
        rows(path, "text")
    assert str(path) in str(caught.value)


def test_the_missing_column_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "text,stars\n")
    with pytest.raises(MissingColumn) as caught:
        rows(path, "text", "label")
    assert caught.value.column == "label"
