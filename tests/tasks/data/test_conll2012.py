"""CoNLL-2012: coreference and roles, in OntoNotes' columns and in LitBank's."""

import tarfile
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.data.conll2012 import (
    AnnotatedDocument,
    AnnotatedSentence,
    Mention,
    read_conll2012,
)
from elmox.tasks.data.propositions import Argument, Proposition

LITBANK = SHARED / "tasks" / "coref_litbank" / "litbank-coref-conll.tar.xz"

ONTONOTES = """\
#begin document (bc/x/00/x_0001); part 000
bc/x  0  0  She    PRP  (S(NP*)  -     -   -  Ann  *  (ARG0*)  *        (3)
bc/x  0  1  sold   VBD  (VP*     sell  01  1  Ann  *  (V*      *        -
bc/x  0  2  off    RP   *        -     -   -  Ann  *  *)       *        -
bc/x  0  3  her    PRP$ (NP*     -     -   -  Ann  *  (ARG1*   (ARG0*)  (7|(3)
bc/x  0  4  dream  NN   *)))     dream 02  1  Ann  *  *)       (V*)     7)

bc/x  0  0  Yes    UH   (S*)     -     -   -  Bob  *  -

#end document
#begin document (bc/x/00/x_0001); part 001
bc/x  1  0  No     UH   (S*)     -     -   -  -    *  (3)
#end document
"""


def litbank(*words: tuple[str, str]) -> str:
    """A sentence of words with their coreference; the other columns as LitBank has them."""
    rows = [
        f"a\t0\t{place}\t{word}" + "\t_" * 8 + f"\t{cell}\n"
        for place, (word, cell) in enumerate(words)
    ]
    return f"#begin document (a_brat); part 0\n{''.join(rows)}\n#end document\n"


def read(folder: Path, text: str) -> list[AnnotatedDocument]:
    path = folder / "some.conll"
    path.write_text(text, "utf-8")
    return list(read_conll2012(path))


def clusters(folder: Path, *cells: str) -> list[list[tuple[int, int]]]:
    """The entities of a sentence with these cells of coreference."""
    (document,) = read(folder, litbank(*(("word", cell) for cell in cells)))
    return [[(mention.start, mention.stop) for mention in entity] for entity in document.clusters]


def test_a_document_in_parts(tmp_path: Path) -> None:
    first, second = read(tmp_path, ONTONOTES)
    assert first == AnnotatedDocument(
        name="bc/x/00/x_0001",
        part=0,
        sentences=(
            AnnotatedSentence(
                words=("She", "sold", "off", "her", "dream"),
                xpos=("PRP", "VBD", "RP", "PRP$", "NN"),
                speakers=("Ann",) * 5,
                propositions=(
                    Proposition(
                        pred=1,
                        lemma="sell",
                        frame="sell.01",
                        args=(Argument("ARG0", 0, 1), Argument("V", 1, 3), Argument("ARG1", 3, 5)),
                    ),
                    Proposition(
                        pred=4,
                        lemma="dream",
                        frame="dream.02",
                        args=(Argument("ARG0", 3, 4), Argument("V", 4, 5)),
                    ),
                ),
            ),
            AnnotatedSentence(("Yes",), ("UH",), ("Bob",), ()),
        ),
        clusters=((Mention(0, 1), Mention(3, 4)), (Mention(3, 5),)),
    )
    assert (second.name, second.part) == (first.name, 1)
    assert second.clusters == ((Mention(0, 1),),)


def test_litbanks_columns(tmp_path: Path) -> None:
    (document,) = read(tmp_path, litbank(("Old", "(0"), ("Ahab", "0)"), ("fell", "")))
    sentence = AnnotatedSentence(("Old", "Ahab", "fell"), ("_",) * 3, ("_",) * 3, ())
    assert document == AnnotatedDocument("a_brat", 0, (sentence,), ((Mention(0, 2),),))


def test_mentions_count_words_from_the_start_of_the_document(tmp_path: Path) -> None:
    text = ONTONOTES.replace("Bob  *  -", "Bob  *  (7)")
    assert read(tmp_path, text)[0].clusters[1] == (Mention(3, 5), Mention(5, 6))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["-", "_", ""], []),
        (["(1|(2", "2)", "1)"], [[(0, 3)], [(0, 2)]]),  # entities in the order of their mentions
        (["(1", "(2", "1)", "2)"], [[(0, 3)], [(1, 4)]]),  # crossing
        (["(1", "(1)", "1)"], [[(0, 3), (1, 2)]]),  # nested, of one entity
        (["(1", "(1", "1)", "1)"], [[(0, 4), (1, 3)]]),  # the end belongs to the latest beginning
        (["(1", "(1)|1)"], [[(0, 2), (1, 2)]]),
        (["(1|(1)", "1)"], [[(0, 1), (0, 2)]]),
        (["(1)|(2)"], [[(0, 1)], [(0, 1)]]),  # of two entities
        (["(1)|(1)"], [[(0, 1)]]),  # written twice
        (["(2)", "(1)", "(2)"], [[(0, 1), (2, 3)], [(1, 2)]]),
    ],
)
def test_brackets(tmp_path: Path, cells: list[str], expected: list[list[tuple[int, int]]]) -> None:
    entities = clusters(tmp_path, *cells)
    assert sorted(entities) == sorted(expected)
    assert [entity[0] for entity in entities] == sorted(entity[0] for entity in entities)


def test_other_ways_to_begin_and_end(tmp_path: Path) -> None:
    text = litbank(("Yes", "(0)")).replace("; part 0", ";").replace("#", "# ")
    (document,) = read(tmp_path, "\n" + text.replace("\n\n#", "\n#") + "\n\n")
    assert (document.name, document.part, len(document.sentences)) == ("a_brat", 0, 1)
    assert read(tmp_path, "#begin document (a (b))\n#end document (a (b))\n") == [
        AnnotatedDocument("a (b)", 0, (), ())
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#begin document (bc/x/00/x_0001); part 000\n", "", "line 1: a word, expected #begin"),
        ("#end document\n#begin", "#begin", "line 10: '#begin document .*expected words or #end"),
        ("#begin document (bc/x/00/x_0001); part 001", "#end document", "line 11: '#end document'"),
        ("#begin document (bc/x/00/x_0001); part 001", "#begin", "line 11: '#begin', expected"),
        ("(3)\n#end document\n", "(3)\n", "line 12: the end, expected #end document"),
        ("0  0  Yes", "0  1  Yes", "line 8: word number '1', expected 0"),
        ("0  2  off", "0  3  off", "line 4: word number '3', expected 2"),
        ("Bob  *  -", "Bob  -", "line 8: 11 columns, expected 12 or more"),
        ("(V*      *        -", "(V*      -", "line 3: 13 columns, expected 14 as above"),
        ("(3)\nbc/x  0  1", "(3\nbc/x  0  1", "line 2: a mention of 3 begins, expected 3\\) in"),
        ("7)\n", "8)\n", "line 6: a mention of 8 ends, expected \\(8 before it"),
        ("(7|(3)", "(7,(3)", "line 5: coreference '\\(7,\\(3\\)', expected"),
        ("(7|(3)", "(7|3", "line 5: coreference '\\(7|3'"),
        ("(7|(3)", "(x|(3)", "line 5: coreference"),
        ("(V*)     7)", "V        7)", "line 6: 'V' in column 13, expected the brackets of one"),
        ("(V*)     7)", "(V*))    7)", "line 6: '\\(V\\*\\)\\)' in column 13"),
        ("(V*)     7)", "*)       7)", "line 6: '\\*\\)' in column 13"),
        ("(V*      *        -", "(ARG1*)  *        -", "line 4: '\\*\\)' in column 12"),
        ("(ARG1*   (ARG0*)  (7", "*        (ARG0*)  (7", "line 6: '\\*\\)' in column 12"),
        ("*)       *        -", "*        *        -", "line 5: '\\(ARG1\\*' in column 12"),
        ("*)       (V*)     7)", "*        (V*)     7)", "line 5: ARG1 in column 12 is never"),
        ("(ARG0*)  (7|(3)", "(V*)     (7|(3)", "line 5: column 13: .*expected one V"),
        ("(V*)     7)", "*        7)", "line 2: column 13: .*expected one V"),
    ],
)  # fmt: skip
def test_malformed_lines(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert ONTONOTES.count(old) == 1, old
    with pytest.raises(ElmoxError, match=f"some.conll, {message}") as failure:
        read(tmp_path, ONTONOTES.replace(old, new))
    assert "\n" not in str(failure.value)


def test_an_empty_word_and_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match=r"line 2: column 4 is empty"):
        read(tmp_path, litbank(("", "")))
    with pytest.raises(ElmoxError, match=r"some.conll has no documents"):
        read(tmp_path, "\n")


@pytest.mark.skipif(not LITBANK.exists(), reason=f"no LitBank at {LITBANK} (set ELMOX_SHARED)")
def test_the_real_litbank(tmp_path: Path) -> None:
    with tarfile.open(LITBANK) as archive:
        archive.extractall(tmp_path, filter="data")
    documents = [
        document
        for path in sorted((tmp_path / "conll").glob("*.conll"))
        for document in read_conll2012(path)
    ]
    sizes = [len(entity) for document in documents for entity in document.clusters]
    sentences = [sentence for document in documents for sentence in document.sentences]
    assert (len(documents), len(sentences)) == (100, 8562)
    assert sum(len(sentence.words) for sentence in sentences) == 210532
    # LitBank's paper (Bamman et al. 2020) counts these mentions; 5,763 entities have no other one.
    assert (sum(sizes), len(sizes), sizes.count(1)) == (29103, 7927, 5763)
