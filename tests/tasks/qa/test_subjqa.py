"""SubjQA's CSV: rows of several annotators become questions, and its marker disappears."""

import csv
import tarfile
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.qa.questions import Answer, Question
from elmox.tasks.qa.subjqa import NOT_FOUND, read_subjqa

SUBJQA = SHARED / "tasks" / "qa_subjqa" / "subjqa-splits.tar.xz"

NAMES = ["domain", "q_review_id", "question", "review", "human_ans_spans", "human_ans_indices"]
REVIEW = 'The plot, it\'s "fine".  Really\nfine. ANSWERNOTFOUND'
PLAIN = REVIEW.removesuffix(" ANSWERNOTFOUND")
NONE = (NOT_FOUND, f"({len(PLAIN) + 1}, {len(REVIEW)})")


def row(name: str, marked: str, indices: str, review: str = REVIEW) -> list[str]:
    return ["books", name, f"How is {name}?", review, marked, indices]


def read(folder: Path, *rows: list[str], names: list[str] = NAMES) -> list[Question]:
    path = folder / "test.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return read_subjqa(path)


def test_annotators_of_one_question_come_together(tmp_path: Path) -> None:
    questions = read(
        tmp_path,
        row("a", "The plot , it 's", "(0, 14)"),  # as annotators saw it, tokens apart
        row("b", *NONE),
        row("a", *NONE),
        row("a", "Really fine", "(24, 35)"),
        row("b", *NONE),
    )
    assert questions == [
        Question(
            "a", PLAIN, "How is a?", (Answer("The plot, it's", 0), Answer("Really\nfine", 24))
        ),
        Question("b", PLAIN, "How is b?", (), is_impossible=True),
    ]
    assert not any(NOT_FOUND in question.context for question in questions)


def test_an_answer_is_the_whole_passage_without_blanks_around(tmp_path: Path) -> None:
    (question,) = read(
        tmp_path,
        row("a", "plot fine", "(4, 20)"),  # words in the middle were not marked
        row("a", "Really", "(22, 31)"),
    )
    assert question.answers == (Answer("plot, it's \"fine", 4), Answer("Really", 24))


def test_line_ends_of_two_characters_are_two(tmp_path: Path) -> None:
    review = "Nice zoo.\r\nThe aardvark was fun. ANSWERNOTFOUND"
    (question,) = read(tmp_path, row("a", "aardvark", "(15, 23)", review))
    assert question.answers == (Answer("aardvark", 15),)


def test_the_marker_among_marked_words_means_no_answer(tmp_path: Path) -> None:
    reaching = row("a", f"fine . {NOT_FOUND}", f"(31, {len(REVIEW)})")
    (question,) = read(tmp_path, reaching)
    assert question.is_impossible
    (question,) = read(tmp_path, reaching, row("a", "fine", "(31, 35)"))
    assert question.answers == (Answer("fine", 31),)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (row("a", "The", "[0, 3]"), r"human_ans_indices is '\[0, 3\]', expected \(FIRST, AFTER"),
        (row("a", "The", "(3, 3)"), r"human_ans_indices is \(3, 3\), expected places in a review"),
        (row("a", "The", "(0, 52)"), r"human_ans_indices is \(0, 52\), expected places in a"),
        (row("a", "The", "(1, 4)"), "'The' is marked, but 'he ' stands at 1"),
        (row("a", "The", "(0, 3)", PLAIN), "the review ends in .* expected ANSWERNOTFOUND"),
        (row("a", "The", "(0, 3)", REVIEW + "!"), "the review ends in .* expected ANSWERNOTFOUND"),
        (row("a", "The", "(0, 3)")[:-1], "too many or too few columns"),
        ([*row("a", "The", "(0, 3)"), "more"], "too many or too few columns"),
        (row("b", "Not", "(0, 3)", "Not bad ANSWERNOTFOUND"), "q_review_id b has another question"),
    ],
)
def test_malformed_rows(tmp_path: Path, wrong: list[str], message: str) -> None:
    # The review of the row above has two lines, so that the wrong one begins in line 4.
    with pytest.raises(ElmoxError, match=f"test.csv, line 4: {message}") as failure:
        read(tmp_path, row("b", *NONE), wrong)
    assert "\n" not in str(failure.value)


def test_malformed_files(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=r"test.csv, line 1: no column review, expected"):
        read(tmp_path, names=[name for name in NAMES if name != "review"])
    with pytest.raises(ElmoxError, match=r"test.csv has no questions"):
        read(tmp_path)
    (tmp_path / "test.csv").write_text("", "utf-8")
    with pytest.raises(ElmoxError, match=r"test.csv, line 1: no column q_review_id"):
        read_subjqa(tmp_path / "test.csv")
    (tmp_path / "test.csv").write_text(",".join(NAMES) + '\nbooks,a,"b', "utf-8")
    with pytest.raises(ElmoxError, match=r"test.csv, line 2: unexpected end of data"):
        read_subjqa(tmp_path / "test.csv")


@pytest.mark.skipif(not SUBJQA.exists(), reason=f"no SubjQA at {SUBJQA} (set ELMOX_SHARED)")
def test_the_real_subjqa(tmp_path: Path) -> None:
    with tarfile.open(SUBJQA) as archive:
        archive.extractall(tmp_path, filter="data")
    sizes = {}
    questions = []
    for path in (tmp_path / "SubjQA").glob("*/splits/*.csv"):
        read_questions = read_subjqa(path)
        sizes[path.parts[-3], path.stem] = len(read_questions)
        questions += read_questions
    assert sizes == {  # as its authors count questions; two training sets are not there
        ("books", "dev"): 256, ("books", "test"): 345,
        ("electronics", "train"): 1295, ("electronics", "dev"): 255, ("electronics", "test"): 358,
        ("grocery", "train"): 1124, ("grocery", "dev"): 218, ("grocery", "test"): 591,
        ("movies", "dev"): 261, ("movies", "test"): 291,
        ("restaurants", "train"): 1400, ("restaurants", "dev"): 267, ("restaurants", "test"): 266,
        ("tripadvisor", "train"): 1165, ("tripadvisor", "dev"): 230, ("tripadvisor", "test"): 512,
    }  # fmt: skip
    for question in questions:
        assert NOT_FOUND not in question.context
        for text, start in question.answers:
            assert text == text.strip()
            assert question.context.startswith(text, start)
