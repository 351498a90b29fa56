"""The unified evaluation framework's XML and gold keys."""

import lzma
import shutil
from pathlib import Path

import pytest
from sense_data import FIRM, SHORE, TESTS, TRAIN, write_sense_data, write_xml, xml_and_gold

from elmox.errors import ElmoxError
from elmox.probes.wsd.raganato import find_test_sets, read_raganato
from elmox.probes.wsd.semcor import read_semcor
from elmox.probes.wsd.senses import LemmaPos, SenseSentence, SenseTag

GOLD = f"a {FIRM}\n"
INSTANCE = '<instance id="a" lemma="bank" pos="NOUN">bank</instance>'


def write(folder: Path, data: str, gold: str = GOLD) -> Path:
    (folder / "mine.gold.key.txt").write_text(gold, "utf-8")
    path = folder / "mine.data.xml"
    path.write_text(data, "utf-8")
    return path


def sentence(inside: str) -> str:
    return f"<corpus><text>\n<sentence>\n{inside}\n</sentence>\n</text></corpus>"


def test_words_tags_and_keys(tmp_path: Path) -> None:
    units = (
        '<wf pos=".">&amp;</wf> <instance id="a" lemma="Change ringing" pos="NOUN">Change ringing'
    )
    path = write(
        tmp_path, sentence(f"{units}</instance><wf></wf><wf>é</wf>"), f"a {FIRM} {SHORE}\n"
    )
    tag = SenseTag(1, 3, LemmaPos("change_ringing", "n"), (FIRM, SHORE), "a")
    assert list(read_raganato(path)) == [SenseSentence(("&", "Change", "ringing", "é"), (tag,))]


def test_the_same_corpus_as_xml_and_as_json_lines(tmp_path: Path) -> None:
    write_sense_data(tmp_path)
    from_xml = list(read_raganato(tmp_path / "semcor.data.xml"))
    from_lines = list(read_semcor(tmp_path / "semcor.jsonl"))
    assert [one.words for one in from_xml] == [one.words for one in from_lines]
    for one, other in zip(from_xml, from_lines, strict=True):
        assert [(tag.start, tag.stop, tag.entry, tag.keys) for tag in one.tags] == [
            (tag.start, tag.stop, tag.entry, tag.keys) for tag in other.tags
        ]


def test_a_file_of_many_blocks_is_read_as_one(tmp_path: Path) -> None:
    many = TRAIN * 400  # some 200 kB: cut anywhere, in the middle of words and tags
    once = list(read_raganato(write_xml(tmp_path, "once", TRAIN)))
    repeated = list(read_raganato(write_xml(tmp_path, "many", many)))
    assert [one.words for one in repeated] == [one.words for one in once] * 400
    assert [[tag.keys for tag in one.tags] for one in repeated] == [
        [tag.keys for tag in one.tags] for one in once
    ] * 400


def test_compressed_files(tmp_path: Path) -> None:
    data, gold = xml_and_gold(TRAIN)
    plain = write_xml(tmp_path, "semcor", TRAIN)
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "semcor.data.xml.xz").write_bytes(lzma.compress(data.encode()))
    (packed / "semcor.gold.key.txt.xz").write_bytes(lzma.compress(gold.encode()))
    assert list(read_raganato(packed / "semcor.data.xml.xz")) == list(read_raganato(plain))


def test_test_sets_come_in_the_usual_order_without_their_concatenation(tmp_path: Path) -> None:
    write_sense_data(tmp_path)
    folder = tmp_path / "Evaluation_Datasets"
    for name in ("mine", "semeval2007"):
        write_xml(folder / name, name, TESTS["senseval2"])
    (folder / "mine" / "mine.data.xml.orig").write_text("not a test set")
    sets = find_test_sets(folder)
    assert list(sets) == ["senseval2", "semeval2007", "semeval2015", "mine"]
    assert sets["mine"] == folder / "mine" / "mine.data.xml"
    assert list(find_test_sets(folder / "mine")) == ["mine"]


def test_folders_without_test_sets_and_with_ambiguous_ones(tmp_path: Path) -> None:
    with pytest.raises(ElmoxError, match="is not a directory"):
        find_test_sets(tmp_path / "nowhere")
    with pytest.raises(ElmoxError, match="has no test set"):
        find_test_sets(tmp_path)
    path = write_xml(tmp_path / "mine", "mine", TRAIN)
    shutil.copy(path, f"{path}.xz")
    with pytest.raises(ElmoxError, match="both called mine"):
        find_test_sets(tmp_path)


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ('<instance lemma="bank" pos="NOUN">bank</instance>', "line 3: an <instance> without id"),
        ('<instance id="a" pos="NOUN">bank</instance>', "line 3: an <instance> without lemma"),
        ('<instance id="a" lemma="bank">bank</instance>', "line 3: an <instance> without pos"),
        ('<instance id="a" lemma="bank" pos="n">bank</instance>', "line 3: pos='n', expected NOUN"),
        ('<instance id="a" lemma="bank" pos="NOUN"> </instance>', "line 3: .* without words"),
        (f"{INSTANCE}\n{INSTANCE}", "line 4: instance a has no gold key, or occurs twice"),
        (f"<wf>the {INSTANCE}</wf>", "line 3: <instance> inside <wf>"),
        ("<sentence></sentence>", "line 3: <sentence> inside <sentence>"),
        ("the bank", "line 3: the text 'the bank' outside <wf> and <instance>"),
        ("</sentence><wf>the</wf><sentence>", "line 3: <wf> outside a <sentence>"),
        ("<wf>the</instance>", "is not well-formed XML: .*line 3"),
        ("<wf>&bomb;</wf>", "is not well-formed XML"),
        ("", "keys of a, which is not an instance of"),
    ],
)
def test_malformed_data_is_refused(tmp_path: Path, inside: str, message: str) -> None:
    path = write(tmp_path, sentence(inside))
    with pytest.raises(ElmoxError, match=message):
        list(read_raganato(path))


def test_a_file_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, sentence(INSTANCE).partition("</text>")[0])
    with pytest.raises(ElmoxError, match=f"^{path} is not well-formed XML: no element found"):
        list(read_raganato(path))


def test_entities_cannot_blow_up(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE corpus [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'
    path = write(tmp_path, bomb + sentence("<wf>&b;</wf>" + INSTANCE))
    with pytest.raises(ElmoxError, match=f"^{path}, line 1: a document type declaration"):
        list(read_raganato(path))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("a\n", "line 1: a has no key"),
        (f"\na {FIRM}\na {SHORE}\n", "line 3: a has keys already"),
        ("a bank\n", "line 1: 'bank' is not a WordNet sense key"),
        (f"a {FIRM}\nb {FIRM}\n", "has keys of b, which is not an instance"),
        (f"b {FIRM}\n", "instance a has no gold key"),
    ],
)
def test_malformed_gold_keys_are_refused(tmp_path: Path, gold: str, message: str) -> None:
    path = write(tmp_path, sentence(INSTANCE), gold)
    with pytest.raises(ElmoxError, match=message):
        list(read_raganato(path))


def test_data_without_gold_keys_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, sentence(INSTANCE))
    (tmp_path / "mine.gold.key.txt").unlink()
    with pytest.raises(ElmoxError, match=r"mine\.gold\.key\.txt does not exist: mine\.data\.xml"):
        list(read_raganato(path))
