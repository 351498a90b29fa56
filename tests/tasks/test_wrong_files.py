"""Every task's reader on every other task's files: refused, or known to be fine to read.

A file of the wrong kind that is read without a word scores 0 after an hour of fitting.
"""

from pathlib import Path

import pytest
from labeled_files import FILES, READABLE
from shell import assert_one_line, run_here

from elmox.errors import ElmoxError
from elmox.tasks.registry import TASKS, find_task


def write(folder: Path, kind: str) -> Path:
    name, content = FILES[kind]
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("task", TASKS)
def test_matrix(task: str, kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind)
    if kind in READABLE[task]:
        assert find_task(task).read(path)
        return
    with pytest.raises(ElmoxError, match=r"expected|reads|not JSON") as caught:
        find_task(task).read(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("task", "kind", "message"),
    [
        ("pos", "chunks", "train.txt: the tags mark spans, for example 'B-NP'"),
        ("ner", "tags", "tags.txt, sentence 1: the tag 'PRP' is not one of BIOUL"),
        ("pos", "treebank without comments", "train.tsv, line 1: this is a treebank in CoNLL-U"),
        ("ner", "litbank", "a_brat.conll, line 1: this is CoNLL-2012, expected columns"),
        ("ner", "sick", "SICK_train.txt, line 1: this is SICK's pairs of sentences"),
        ("chunk", "squad", "train-v1.1.json, line 1: this is JSON, expected columns"),
    ],
)
def test_messages(
    task: str, kind: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, kind)
    files = ["--train", path, "--dev", path, "--out", tmp_path / "run", "--elmo", "none"]
    code, out, err = run_here(["fit", task, *files], capsys)
    assert_one_line(code, out, err, message)
    assert not (tmp_path / "run").exists()


def test_columns_that_only_look_like_other_kinds(tmp_path: Path) -> None:
    """Words such as `{`, `#` and `1`, and ten columns, are all fine."""
    path = tmp_path / "odd.txt"
    for content in (
        "{ }\n",
        "[ ]\n",
        "# text\n1 CD\n",
        "#begin VB\n",
        "1\t_\t_\t_\t_\t_\tx\t_\t_\tCD\n",
        "2\t_\t_\t_\t_\t_\t1\t_\t_\tCD\n",
        "It PRP\nfell B-X\n",  # one tag that spells no span is enough
    ):
        path.write_text(content)
        assert find_task("pos").read(path)[0].words[0] == content.split()[0]


def test_a_wrong_tag_after_a_span_of_one_word(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("Ada U-PER\n\nIt PRP\n")
    with pytest.raises(ElmoxError, match="sentence 2: the tag 'PRP'"):
        find_task("ner").read(path)
