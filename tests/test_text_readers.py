"""Every reader of text reads every compression, and reports every kind of damage alike."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from compressed import COMPRESS

from elmox.errors import UnreadableFile
from elmox.io.conllu import read_conllu
from elmox.io.json_lines import read_json_lines
from elmox.io.text_files import COMPRESSIONS, open_bytes, open_text
from elmox.probes.wsd.raganato import read_raganato
from elmox.probes.wsd.semcor import read_semcor
from elmox.probes.wsd.wordnet import read_sense_index
from elmox.tasks.data.conll2012 import read_conll2012
from elmox.tasks.data.word_vectors import read_word_vectors
from elmox.tasks.entailment.readers import read_sick, read_snli
from elmox.tasks.qa.squad import read_squad
from elmox.tasks.qa.subjqa import read_subjqa
from elmox.tasks.sentiment.trees import read_trees
from elmox.tasks.srl.propbank import read_propbank
from elmox.tasks.tagging.columns import read_columns
from elmox.text.lines import read_lines
from elmox.training.corpus.blocks import number_block
from elmox.training.corpus.sources import find_sources, read_blocks

FIRM = "bank%1:14:00::"
ANSWER = {"id": "1", "question": "Wer?", "answers": [{"text": "Ada", "answer_start": 0}]}


def read_text(path: Path) -> str:
    with open_text(path) as file:
        return file.read()


def read_bytes(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read()


def read_corpus(path: Path) -> list[Any]:
    [source] = find_sources([str(path)])
    return [number_block(block, None).words for block in read_blocks(source)]


@dataclass(frozen=True)
class Reader:
    """A reader, and the smallest text that it accepts."""

    read: Callable[[Path], Any]
    content: str
    name: str = "text"


READERS = {
    "open_text": Reader(read_text, "naïve\n"),
    "open_bytes": Reader(read_bytes, "naïve\n"),
    "lines": Reader(lambda path: read_lines(str(path), "tokenized", str.split), "naïve text\n"),
    "json lines": Reader(lambda path: read_json_lines(path, dict), '{"a": "ï"}\n', "text.jsonl"),
    "prepare": Reader(read_corpus, "naïve text\n\nof two documents\n"),
    "conllu": Reader(read_conllu, "1\tnaïve\t_\tADJ\t_\t_\t0\troot\t_\t_\n", "text.conllu"),
    "columns": Reader(read_columns, "naïve JJ B-X\n"),
    "conll2012": Reader(
        read_conll2012,
        "#begin document (d); part 000\nd 0 0 Adä NNP * - - - - * (0)\n\n#end document\n",
    ),
    "word vectors": Reader(read_word_vectors, "naïve 0.5 -1\n"),
    "trees": Reader(read_trees, "(3 (2 naïve) (2 film))\n"),
    "sick": Reader(
        read_sick,
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "1\tnaïve\tb\t1\tNEUTRAL\n",
    ),
    "snli": Reader(
        read_snli,
        json.dumps({"gold_label": "neutral", "sentence1": "a", "sentence2": "b", "pairID": "1"}),
        "text.jsonl",
    ),
    "squad": Reader(
        read_squad, json.dumps({"data": [{"paragraphs": [{"context": "Ada.", "qas": [ANSWER]}]}]})
    ),
    "subjqa": Reader(
        read_subjqa,
        "q_review_id,question,review,human_ans_spans,human_ans_indices\n"
        'q,Wie?,naïve ANSWERNOTFOUND,naïve,"(0, 5)"\n',
    ),
    "propbank": Reader(
        read_propbank,
        json.dumps({"sent_id": "s", "words": ["Go"], "xpos": ["VB"], "props": []}),
        "text.jsonl",
    ),
    "semcor": Reader(read_semcor, json.dumps({"tokens": ["bank"], "sense": [FIRM]}), "text.jsonl"),
    "raganato": Reader(
        read_raganato,
        '<corpus><text id="t"><sentence id="s"><instance id="a" lemma="bank" pos="NOUN">bank'
        "</instance></sentence></text></corpus>",
        "text.data.xml",
    ),
    "wordnet": Reader(read_sense_index, f"{FIRM} 00000001 1 0\n"),
}


def write(folder: Path, reader: Reader, suffix: str, content: bytes) -> Path:
    (folder / "text.gold.key.txt").write_text(f"a {FIRM}\n")  # for Raganato's format
    path = folder / f"{reader.name}{suffix}"
    path.write_bytes(content)
    return path


def result(reader: Reader, path: Path) -> str:
    """Read everything, lazily or not, as something to compare."""
    values = reader.read(path)
    return repr(list(values) if hasattr(values, "__next__") else values)


def test_all_compressions_are_tested() -> None:
    assert tuple(COMPRESS) == COMPRESSIONS


@pytest.mark.parametrize("suffix", [*COMPRESS, ".ZST"])
@pytest.mark.parametrize("name", READERS)
def test_every_compression(tmp_path: Path, name: str, suffix: str) -> None:
    reader = READERS[name]
    content = reader.content.encode()
    plain = write(tmp_path, reader, "", content)
    packed = write(tmp_path, reader, suffix, COMPRESS[suffix.lower()](content))
    assert result(reader, packed) == result(reader, plain)


@pytest.mark.parametrize("damage", ["truncated", "not compressed", "empty", "garbled"])
@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("name", READERS)
def test_damaged_compression(tmp_path: Path, name: str, suffix: str, damage: str) -> None:
    reader = READERS[name]
    packed = COMPRESS[suffix](reader.content.encode() * (50 if damage == "garbled" else 1))
    content = {
        "truncated": packed[:-5],
        "not compressed": reader.content.encode(),
        "empty": b"",
        "garbled": packed[:10] + packed[10:][::-1],
    }[damage]
    path = write(tmp_path, reader, suffix, content)
    with pytest.raises(UnreadableFile, match=rf"^{path} is damaged or not a {suffix} file: "):
        result(reader, path)


@pytest.mark.parametrize("suffix", ["", ".zst"])
@pytest.mark.parametrize("name", [name for name in READERS if name != "open_bytes"])
def test_a_byte_that_is_not_utf8(tmp_path: Path, name: str, suffix: str) -> None:
    reader = READERS[name]
    content = reader.content.encode().rstrip(b"\n")
    line, column = content.count(b"\n") + 1, len(content) - content.rfind(b"\n")
    content += b"\xff\n"
    path = write(tmp_path, reader, suffix, COMPRESS[suffix](content) if suffix else content)
    message = f"{path}, line {line}: byte {column} is not UTF-8 (0xff): convert"
    with pytest.raises(UnreadableFile, match=f"^{re.escape(message)}"):
        result(reader, path)


@pytest.mark.parametrize("name", READERS)
def test_files_that_are_not_text(tmp_path: Path, name: str) -> None:
    reader = READERS[name]
    path = write(tmp_path, reader, "", b"")
    path.unlink()
    if name != "prepare":  # which also takes patterns, and has messages for them
        with pytest.raises(UnreadableFile, match=f"^{path} does not exist"):
            result(reader, path)
        path.mkdir()
        with pytest.raises(UnreadableFile, match=f"^{path} is a directory, expected a text file"):
            result(reader, path)
        path.rmdir()
    os.symlink("/dev/zero", path)
    with pytest.raises(UnreadableFile, match=f"^{path} is a device, expected a text file"):
        result(reader, path)
