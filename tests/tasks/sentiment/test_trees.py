"""Trees in brackets: Penn's and those of the sentiment treebank."""

from collections import Counter
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.sentiment.trees import (
    Phrase,
    SentimentTree,
    Tree,
    read_sentiment,
    read_trees,
    spans,
)

SST = SHARED / "tasks" / "sentiment_sst5"

PENN = """\
( (S
    (NP-SBJ (DT The) (NN film) )
    (VP (VBZ works) (NP (-NONE- *T*-1)))))
(NN -LRB-) ( (X (Y and\\/or)) )
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "trees.txt"
    path.write_text(text, "utf-8")
    return path


def leaf(label: str, word: str) -> Tree:
    return Tree(label, word=word)


def test_penn_trees(tmp_path: Path) -> None:
    first, second, third = read_trees(write(tmp_path, PENN))
    subject = Tree("NP-SBJ", (leaf("DT", "The"), leaf("NN", "film")))
    verb = Tree("VP", (leaf("VBZ", "works"), Tree("NP", (leaf("-NONE-", "*T*-1"),))))
    assert first == Tree("S", (subject, verb))
    assert [(node.label, node.word) for node in first.leaves()] == [
        ("DT", "The"), ("NN", "film"), ("VBZ", "works"), ("-NONE-", "*T*-1"),
    ]  # fmt: skip
    assert second == leaf("NN", "(")
    assert third == Tree("X", (leaf("Y", "and/or"),))
    assert spans(first) == (
        ("The", "film", "works", "*T*-1"),
        (
            Phrase("S", 0, 4),
            Phrase("NP-SBJ", 0, 2),
            Phrase("DT", 0, 1),
            Phrase("NN", 1, 2),
            Phrase("VP", 2, 4),
            Phrase("VBZ", 2, 3),
            Phrase("NP", 3, 4),
            Phrase("-NONE-", 3, 4),
        ),
    )


def test_sentiment_trees(tmp_path: Path) -> None:
    text = "(4 (2 -LRB-) (3 (2 8\xa01\\/2) (2 -RRB-)))\n\n(0 bad)\n"
    phrases = (("4", 0, 3), ("2", 0, 1), ("3", 1, 3), ("2", 1, 2), ("2", 2, 3))
    assert list(read_sentiment(write(tmp_path, text))) == [
        SentimentTree(("(", "8\xa01/2", ")"), 4, tuple(Phrase(*phrase) for phrase in phrases)),
        SentimentTree(("bad",), 0, (Phrase("0", 0, 1),)),
    ]


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("-LRB-", "("), ("-RRB-", ")"), ("-LSB-", "["), ("-RSB-", "]"),
        ("-LCB-", "{"), ("-RCB-", "}"),
        ("\\*\\*", "**"), ("1\\/2", "1/2"), ("a\\b", "a\\b"), ("-LRB-x", "-LRB-x"),
    ],
)  # fmt: skip
def test_words_are_as_in_the_text(tmp_path: Path, written: str, word: str) -> None:
    assert list(read_trees(write(tmp_path, f"(2 {written})"))) == [leaf("2", word)]


def test_depth_does_not_matter(tmp_path: Path) -> None:
    depth = 5000
    (tree,) = read_trees(write(tmp_path, "(X " * depth + "(Y z)" + ")" * depth))
    words, phrases = spans(tree)
    assert (words, len(phrases), set(phrases[:-1])) == (("z",), depth + 1, {Phrase("X", 0, 1)})
    assert [node.word for node in tree.leaves()] == ["z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(2 a)\nb", "line 2: 'b' outside of brackets, expected a tree"),
        ("(2 a)\n)", r"line 2: '\)' outside of brackets"),
        ("(2 a)\n(2 (2 b)\n(2 c)", "line 2: a bracket is opened here and never closed"),
        ("(2 a)\n(2 b c)", "line 2: 'c' after the words of '2', expected its end"),
        ("(2 a)\n(2 (2 b) c)", "line 2: 'c' after the words of '2'"),
        ("(2 a)\n(2 b (2 c))", "line 2: a bracket after the word 'b'"),
        ("(2 a)\n(2)", "line 2: nothing below '2', expected a word or phrases"),
        ("(2 a)\n()", "line 2: brackets without a label"),
        ("(2 a)\n((2 b) (2 c))", "line 2: brackets without a label"),
        ("(2 a)\n(2 ((2 b)))", "line 2: brackets without a label"),
        ("(2 a)\n((2 b) 2)", "line 2: '2' after the words of ''"),
    ],
)
def test_malformed_trees(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ElmoxError, match=f"trees.txt, {message}"):
        list(read_trees(write(tmp_path, text)))


@pytest.mark.parametrize("label", ["5", "-1", "２", "NP"])
def test_malformed_sentiments(tmp_path: Path, label: str) -> None:
    path = write(tmp_path, f"(2 a)\n(2 (2 b) ({label} c))")
    with pytest.raises(ElmoxError, match=f"trees.txt, line 2: the label '{label}', expected"):
        list(read_sentiment(path))


@pytest.mark.skipif(not SST.is_dir(), reason=f"no sentiment treebank at {SST} (set ELMOX_SHARED)")
def test_the_real_sentiment_treebank() -> None:
    labels = {}
    for part in ("train", "dev", "test"):
        trees = list(read_sentiment(SST / f"{part}.txt.xz"))
        labels[part] = [count for _, count in sorted(Counter(tree.label for tree in trees).items())]
        assert all(len(tree.phrases) == 2 * len(tree.words) - 1 for tree in trees)  # binary trees
        assert all(tree.phrases[0] == (str(tree.label), 0, len(tree.words)) for tree in trees)
    assert {part: sum(counts) for part, counts in labels.items()} == {
        "train": 8544, "dev": 1101, "test": 2210,
    }  # fmt: skip
    assert labels["train"] == [1092, 2218, 1624, 2322, 1288]
