"""CoNLL-U: the words and annotation of a treebank, and errors for malformed lines."""

from dataclasses import replace
from pathlib import Path

import pytest
from shared_data import SHARED
from treebank_data import conllu, write_treebank

from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence, read_conllu
from elmox.tasks.registry import find_task

EWT = SHARED / "tasks" / "pos_parse_ud_ewt"

SAMPLE = """\
# sent_id = 1
# text = Don't go, 10 000 #1!
1-2	Don't	_	_	_	_	_	_	_	SpaceAfter=No
1	Do	do	AUX	VB	Mood=Imp|VerbForm=Fin	3	aux	3:aux	_
2	n't	not	PART	RB	_	3	advmod	3:advmod	_
3	go	go	VERB	VB	Mood=Imp	0	root	0:root	SpaceAfter=No
3.1	there	there	ADV	RB	_	_	_	3:advmod	_
3.2	now	now	ADV	RB	_	_	_	3:advmod	_
4-5	10 #1	_	_	_	_	_	_	_	_
4	10 000	10000	NUM	CD	_	5	nummod	5:nummod	_
5	#1	#1	SYM	SYM	_	3	obj	3:obj	_

0.1	_	_	_	_	_	_	_	_	_
1	_	_	PUNCT	NFP	_	0	root	_	_
"""


def read(tmp_path: Path, text: str) -> list[TreebankSentence]:
    path = tmp_path / "bank.conllu"
    path.write_text(text, "utf-8")
    return read_conllu(path)


def changed(line: int, column: int, value: str) -> str:
    """Return the sample with another value in a column; line and column are counted from 1."""
    lines = SAMPLE.split("\n")
    columns = lines[line - 1].split("\t")
    columns[column - 1] = value
    lines[line - 1] = "\t".join(columns)
    return "\n".join(lines)


def test_words_and_their_annotation(tmp_path: Path) -> None:
    first, second = read(tmp_path, SAMPLE)
    assert first == TreebankSentence(
        words=("Do", "n't", "go", "10 000", "#1"),
        lemmas=("do", "not", "go", "10000", "#1"),
        upos=("AUX", "PART", "VERB", "NUM", "SYM"),
        xpos=("VB", "RB", "VB", "CD", "SYM"),
        feats=("Mood=Imp|VerbForm=Fin", "_", "Mood=Imp", "_", "_"),
        heads=(3, 3, 0, 5, 3),
        deprels=("aux", "advmod", "root", "nummod", "obj"),
        comments=("sent_id = 1", "text = Don't go, 10 000 #1!"),
        line=4,
    )
    assert len(first) == 5
    assert (second.words, second.heads, second.comments, second.line) == (("_",), (0,), (), 14)


def test_ends_of_lines_and_of_the_file_do_not_matter(tmp_path: Path) -> None:
    expected = read(tmp_path, SAMPLE)
    for text in (SAMPLE + "\n", SAMPLE.rstrip("\n"), SAMPLE + "\n\n\n"):
        assert read(tmp_path, text) == expected
    (tmp_path / "bank.conllu").write_bytes(b"\xef\xbb\xbf" + SAMPLE.replace("\n", "\r\n").encode())
    assert read_conllu(tmp_path / "bank.conllu") == expected
    later = read(tmp_path, "\n\n" + SAMPLE)
    assert [replace(sentence, line=sentence.line - 2) for sentence in later] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SAMPLE.replace("\tobj\t3:obj", ""), "line 11: 8 columns, expected 10"),
        (SAMPLE.replace("\t", " "), "line 3: 1 columns, expected 10 between tabs: \"1-2 Don't"),
        (SAMPLE.replace("\tRB\t_\t3\t", "\tRB\t\t3\t"), "line 5: column 6 is empty"),
        (SAMPLE.replace("\n\n", "\n \n"), "line 12: 1 columns"),
        (SAMPLE.replace("\n4-5", "\n# late\n4-5"), "line 9: a comment among words"),
        (SAMPLE + "\n# the end\n", "line 17: comments without words"),
        (SAMPLE + "\n0.1" + "\t_" * 9 + "\n", "line 16: a sentence without words"),
        (changed(5, 1, "3"), "line 5: id '3' after word 1, expected 2, a multiword token 2-N"),
        (changed(4, 1, "0"), "line 4: id '0' after word 0, expected 1"),
        (changed(4, 1, "01"), "line 4: id '01'"),
        (changed(4, 1, "one"), "line 4: id 'one'"),
        (changed(4, 1, "１"), "line 4: id '１'"),
        (changed(4, 1, "9" * 5000), "line 4: id '999"),
        (changed(6, 1, "2"), "line 6: id '2' after word 2, expected 3"),
        (changed(7, 1, "4.1"), "line 7: id '4.1' after word 3"),
        (changed(8, 1, "3.3"), r"line 8: id '3.3' after word 3, .* empty node 3.2"),
        (changed(3, 1, "2-3"), "line 3: id '2-3' after word 0"),
        (changed(3, 1, "1-1"), "line 3: id '1-1'"),
        (changed(3, 1, "1-4"), "line 9: id '4-5' after word 3"),  # ranges do not overlap
        (changed(9, 1, "4-6"), "line 11: a multiword token up to word 6, but the sentence has 5"),
        (changed(4, 7, "6"), "line 4: the head of word 1 of 5 is '6', expected"),
        (changed(4, 7, "1"), "line 4: the head of word 1 of 5 is '1'"),
        (changed(4, 7, "-1"), "line 4: the head of word 1 of 5 is '-1'"),
        (changed(4, 7, "_"), "line 4: the head of word 1 of 5 is '_'"),
        ("", "bank.conllu has no sentences"),
        ("\n\n", "bank.conllu has no sentences"),
    ],
)  # fmt: skip
def test_malformed_lines(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ElmoxError, match=message.replace("(", r"\(")) as failure:
        read(tmp_path, text)
    assert "bank.conllu" in str(failure.value)
    assert "\n" not in str(failure.value)


def test_tags_without_trees(tmp_path: Path) -> None:
    """They are training data for a tagger, but not for a parser."""
    bare = "1\ta\t_\tDET\t_\t_\t_\t_\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"
    (sentence,) = read(tmp_path, bare)
    assert (sentence.words, sentence.upos, sentence.heads) == (("a", "cat"), ("DET", "NOUN"), ())
    assert find_task("pos").read(tmp_path / "bank.conllu")[0].tags == sentence.upos
    read(tmp_path, SAMPLE + "\n" + bare)
    with pytest.raises(ElmoxError, match=r"bank\.conllu, line 16: a sentence without heads"):
        find_task("parse").read(tmp_path / "bank.conllu")


def test_a_parser_refuses_cycles(tmp_path: Path) -> None:
    cycle = SAMPLE + "\n1\ta\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tb\t_\t_\t_\t_\t1\tdep\t_\t_\n\n"
    assert read(tmp_path, cycle)[-1].heads == (2, 1)
    message = r"bank\.conllu, line 16: a sentence whose heads form a cycle, expected a tree"
    with pytest.raises(ElmoxError, match=message):
        find_task("parse").read(tmp_path / "bank.conllu")


def test_treebanks_of_other_tests_are_valid(tmp_path: Path) -> None:
    paths = write_treebank(tmp_path, num_sentences=3)
    assert [len(read_conllu(path)) for path in paths.values()] == [3, 3, 3]
    (sentence,) = read(tmp_path, conllu(["a", "cat"], ["DT", "NN"]))
    assert (sentence.words, sentence.xpos, sentence.upos) == (
        ("a", "cat"),
        ("DT", "NN"),
        ("D", "N"),
    )


@pytest.mark.skipif(not EWT.is_dir(), reason=f"no treebank at {EWT} (set ELMOX_SHARED)")
def test_a_real_treebank() -> None:
    counts = {}
    for part in ("train", "dev", "test"):
        sentences = read_conllu(EWT / f"en_ewt-ud-{part}.conllu.xz")
        counts[part] = (len(sentences), sum(map(len, sentences)))
        assert all(sentence.heads.count(0) == 1 for sentence in sentences)
    assert counts == {"train": (12544, 204577), "dev": (2001, 25147), "test": (2077, 25094)}
