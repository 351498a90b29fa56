"""Every task's reader on every other task's files: refused, or known to be fine to read.

A file of the wrong kind that is read without a word scores 0 after an hour of fitting.
"""

import json
from pathlib import Path

import pytest
from shell import assert_one_line, run_here

from elmox.errors import ElmoxError
from elmox.tasks.registry import TASKS, find_task

SNLI = {"gold_label": "neutral", "sentence1": "A man eats.", "sentence2": "Ha.", "pairID": "1"}
ROLES = {
    "sent_id": "s",
    "words": ["It", "fell"],
    "xpos": ["PRP", "VBD"],
    "props": [
        {"pred": 1, "lemma": "fall", "frame": "fall.01", "args": [["ARG1", 0, 0], ["V", 1, 1]]}
    ],
}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "It fell.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "What fell?",
                            "answers": [{"text": "It", "answer_start": 0}],
                        }
                    ],
                }
            ]
        }
    ]
}
TREEBANK = """# text = It fell
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tfell\tfall\tVERB\tVBD\t_\t0\troot\t_\t_

"""
ONTONOTES = """#begin document (a); part 000
a 0 0 It PRP (S* - - - Ann * (ARG1*) (3)
a 0 1 fell VBD *) fall 01 1 Ann * (V*) -

a 0 0 It PRP (S* - - - Ann * (3)
a 0 1 . . *) - - - Ann * -

#end document
"""
LITBANK = """#begin document (a); part 0
a\t0\t0\tIt\t_\t_\t_\t_\t_\t_\t_\t_\t(3)
a\t0\t1\tfell\t_\t_\t_\t_\t_\t_\t_\t_\t

a\t0\t0\tIt\t_\t_\t_\t_\t_\t_\t_\t_\t(3)

#end document
"""
SUBJQA = """q_review_id,question,review,human_ans_spans,human_ans_indices
r1,Is it good?,"Very good, yes. ANSWERNOTFOUND",Very good,"(0, 9)"
"""

# By kind: the name and the content of a file as it is published, or nearly so.
FILES = {
    "names": ("eng.train", "-DOCSTART- -X- -X- O\n\nAda NNP B-NP B-PER\nfell VBD B-VP O\n\n"),
    "chunks": ("train.txt", "It PRP B-NP\nfell VBD B-VP\n. . O\n\n"),
    "tags": ("tags.txt", "It\tPRP\nfell\tVBD\n\n"),
    "treebank": ("en-ud-train.conllu", TREEBANK),
    "treebank by another name": ("train.conll", TREEBANK),
    "treebank without comments": ("train.tsv", TREEBANK.partition("\n")[2]),
    "treebank without tags": (
        "plain.conllu",
        TREEBANK.replace("PRON\tPRP", "_\t_").replace("VERB\tVBD", "_\t_"),
    ),
    "roles": ("propbank.jsonl", json.dumps(ROLES) + "\n"),
    "ontonotes": ("a.gold_conll", ONTONOTES),
    "litbank": ("a_brat.conll", LITBANK),
    "snli": ("snli_1.0_train.jsonl", json.dumps(SNLI) + "\n"),
    "sick": (
        "SICK_train.txt",
        "pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n1\tA man eats\tHa\tNEUTRAL\n",
    ),
    "sentiment": ("sst.txt", "(4 (2 (2 The) (2 film)) (4 works))\n(2 (2 It) (2 fell))\n"),
    "penn treebank": ("wsj.mrg", "( (S (NP (DT The) (NN film))\n     (VP (VBZ works))) )\n"),
    "squad": ("train-v1.1.json", json.dumps(SQUAD)),
    "squad, indented": ("squad.json", json.dumps(SQUAD, indent=4)),
    "subjqa": ("books.csv", SUBJQA),
    "text": ("text.txt", "It fell .\nThe film works .\n"),
    "text of two words a line": ("two.txt", "It fell\nIt works\n"),
    "paragraphs": ("book.txt", "It fell. The film, they log, works.\n\nIt does.\n"),
    "csv": ("table.csv", "word,tag\nIt,PRP\nfell,VBD\n"),
    "labeled csv": ("reviews.csv", "text,label\nIt works,good\nIt fell,bad\n"),
    "labeled jsonl": ("reviews.jsonl", '{"text": "It works", "label": "good"}\n'),
    "empty": ("empty.txt", ""),
    "blank": ("blank.txt", "\n\n\n"),
}

# The kinds that each task reads. Names and chunks look alike, and running text with the same number
# of words per line cannot be distinguished from columns.
READABLE = {
    "classify": {"labeled csv", "labeled jsonl"},
    "pos": {"tags", "treebank", "text of two words a line"},
    "ner": {"names", "chunks"},
    "chunk": {"names", "chunks"},
    "srl": {"roles", "ontonotes"},
    "parse": {
        "treebank",
        "treebank by another name",
        "treebank without comments",
        "treebank without tags",
    },
    "nli": {"snli", "sick"},
    "sst": {"sentiment"},
    "qa": {"squad", "squad, indented", "subjqa"},
    "coref": {"ontonotes", "litbank"},
}


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
