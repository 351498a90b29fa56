"""SemCor as JSON lines."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from sense_data import COMPETE, HAPPEN, PERFORM, TRAIN, json_lines

from elmox.errors import ElmoxError
from elmox.probes.wsd.semcor import read_semcor, sense_keys
from elmox.probes.wsd.senses import LemmaPos, SenseSentence, SenseTag


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "semcor.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_units_are_split_into_words(tmp_path: Path) -> None:
    tokens = ["_to", "It", "took_place", "_", "St._Patrick's_Day", "."]
    path = write(tmp_path, {"id": 7, "tokens": tokens, "sense": [None, None, HAPPEN, *[None] * 3]})
    assert list(read_semcor(path)) == [
        SenseSentence(
            ("to", "It", "took", "place", "St.", "Patrick's", "Day", "."),
            (SenseTag(2, 4, LemmaPos("take_place", "v"), (HAPPEN,)),),
        )
    ]


def test_a_corpus_is_read_sentence_by_sentence_plain_or_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "semcor.jsonl", tmp_path / "semcor.jsonl.gz"
    text = json_lines(TRAIN[:4]) + "\n" + json_lines(TRAIN[4:])  # an empty line is no sentence
    plain.write_text(text, "utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    sentences = list(read_semcor(plain))
    assert [len(sentence.words) for sentence in sentences] == [6, 5, 6, 5, 3, 3, 2]
    assert sentences[4].tags == (SenseTag(1, 2, LemmaPos("play", "v"), (PERFORM, COMPETE)),)
    assert list(read_semcor(packed)) == sentences


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("say%2:32:00::", ("say%2:32:00::",)),
        ("year%1:28:02::;1:28:01::", ("year%1:28:02::", "year%1:28:01::")),
        ("year%1:28:02::;1:28:02::", ("year%1:28:02::",)),
        ("previous%5:00:00:preceding(a):00", ("previous%5:00:00:preceding:00",)),
        ("false%5:00:00:wrong(p):00;3:00:00::", ("false%5:00:00:wrong:00", "false%3:00:00::")),
    ],
)
def test_semcors_notation_of_keys(written: str, keys: tuple[str, ...]) -> None:
    assert sense_keys(written) == keys


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([], "a list, expected an object"),
        ({"sense": []}, "expected tokens"),
        ({"tokens": "It", "sense": [None]}, "expected tokens"),
        ({"tokens": ["It", 3], "sense": [None, None]}, "expected tokens"),
        ({"tokens": ["It"]}, "expected sense"),
        ({"tokens": ["It"], "sense": [3]}, "expected sense"),
        ({"tokens": ["It"], "sense": []}, "1 tokens but 0 senses"),
        ({"tokens": ["It"], "sense": [""]}, "'%' is not a WordNet sense key"),
        ({"tokens": ["message"], "sense": ["say"]}, "'say%' is not a WordNet sense key"),
        ({"tokens": ["message"], "sense": ["say%2:32:00::;"]}, "'say%' is not"),
        ({"tokens": ["_"], "sense": ["say%2:32:00::"]}, "a token without words, '_'"),
    ],
)
def test_malformed_lines_are_refused(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path, {"tokens": [], "sense": []}, line)
    sentences = read_semcor(path)
    assert next(sentences) == SenseSentence((), ())
    with pytest.raises(ElmoxError, match=f"^{path}, line 2: {message}"):
        next(sentences)


def test_a_line_that_is_not_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "semcor.jsonl"
    path.write_text("It took place.\n")
    with pytest.raises(ElmoxError, match=f"^{path}, line 1: not JSON"):
        list(read_semcor(path))
