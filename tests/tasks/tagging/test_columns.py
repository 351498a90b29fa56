"""CoNLL columns: what is read, from tabs and from spaces, and that nothing malformed passes."""

import lzma
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.tagging.columns import TaggedSentence, read_columns

TASKS = SHARED / "tasks"

SAMPLE = """\
-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

-DOCSTART- -X- -X- O
10\u00a0000 CD I-NP O
# # O O

. . O O
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "names.conll"
    path.write_text(text, "utf-8")
    return path


def read(tmp_path: Path, text: str, **columns: int) -> list[TaggedSentence]:
    return list(read_columns(write(tmp_path, text), **columns))


def test_words_and_tags(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, SAMPLE)
    assert first == TaggedSentence(("EU", "rejects"), ("I-ORG", "O"))
    assert second == TaggedSentence(("10\u00a0000", "#"), ("O", "O"))
    assert third == TaggedSentence((".",), ("O",))
    assert [len(sentence) for sentence in (first, second, third)] == [2, 2, 1]


def test_other_columns(tmp_path: Path) -> None:
    assert [sentence.tags for sentence in read(tmp_path, SAMPLE, tag=1)] == [
        ("NNP", "VBZ"),
        ("CD", "#"),
        (".",),
    ]
    assert read(tmp_path, SAMPLE, word=-3, tag=-2)[0].words == ("NNP", "VBZ")


def test_a_document_start_ends_the_sentence_before_it(tmp_path: Path) -> None:
    assert len(read(tmp_path, SAMPLE.replace("O\n\n-DOC", "O\n-DOC"))) == 3


def test_tabs_keep_spaces_and_blank_lines_may_hold_white_space(tmp_path: Path) -> None:
    first, second = read(tmp_path, "New York\tB-location\n is \tO \n\t\n \n!\tO\n\n\n")
    assert first == TaggedSentence(("New York", "is"), ("B-location", "O"))
    assert second == TaggedSentence(("!",), ("O",))


def test_ends_of_lines_and_of_the_file_do_not_matter(tmp_path: Path) -> None:
    expected = read(tmp_path, SAMPLE)
    for text in (SAMPLE + "\n\n", SAMPLE.rstrip("\n"), "\n\n" + SAMPLE, SAMPLE.replace(" ", "  ")):
        assert read(tmp_path, text) == expected
    path = tmp_path / "dos.conll"
    path.write_bytes(b"\xef\xbb\xbf" + SAMPLE.replace("\n", "\r\n").encode())
    assert list(read_columns(path)) == expected
    (tmp_path / "names.xz").write_bytes(lzma.compress(SAMPLE.encode()))
    assert list(read_columns(tmp_path / "names.xz")) == expected


def test_sentences_come_before_the_file_is_read(tmp_path: Path) -> None:
    sentences = read_columns(write(tmp_path, SAMPLE + "\nbroken\n"))
    assert [len(next(sentences)) for _ in range(3)] == [2, 2, 1]
    with pytest.raises(ElmoxError, match="line 12: 1 column, expected 4"):
        next(sentences)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        (SAMPLE.replace("VBZ ", ""), {}, "line 4: 3 columns, expected 4 as in the lines before"),
        (SAMPLE.replace("# #", "# \t#"), {}, "line 8: 2 columns, expected 4"),
        ("a\tO\n\tO\n", {}, "line 2: column 1 of 2 is empty, expected a word"),
        ("a\tO\n \tO\n", {}, "line 2: column 1 of 2 is empty, expected a word"),
        ("a\tO\nb\t\n", {}, "line 2: column 2 of 2 is empty, expected a tag"),
        ("\tO\n", {}, "line 1: column 1 of 2 is empty, expected a word"),
        ("a\nb\n", {}, "line 1: 1 column, expected words (index 0) and tags (index -1) in two"),
        ("a O\n", {"word": 1}, "expected words (index 1) and tags (index -1) in two"),
        ("a O\n", {"tag": 2}, "line 1: 2 columns, expected one at index 2 for the tags"),
        ("a O\n", {"word": -3}, "line 1: 2 columns, expected one at index -3 for the words"),
        ("", {}, "names.conll has no sentences"),
        ("\n \n\t\n", {}, "names.conll has no sentences"),
        ("-DOCSTART- O\n", {}, "names.conll has no sentences"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, columns: dict[str, int], message: str) -> None:
    with pytest.raises(ElmoxError) as failure:
        read(tmp_path, text, **columns)
    assert message in str(failure.value)
    assert "names.conll" in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.skipif(not TASKS.is_dir(), reason=f"no tasks at {TASKS} (set ELMOX_SHARED)")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ner_wnut17/wnut17train.conll", (3394, 62730)),
        ("ner_wnut17/emerging.dev.conll", (1009, 15733)),
        ("ner_wnut17/emerging.test.annotated", (1287, 23394)),
        ("chunking_conll2000/test.txt.xz", (2012, 47377)),
        ("chunking_conll2000/train.txt.xz", (8936, 211727)),
    ],
)
def test_published_files(name: str, counts: tuple[int, int]) -> None:
    sentences = list(read_columns(TASKS / name))
    assert (len(sentences), sum(map(len, sentences))) == counts
