r"""Lone surrogates in JSON, `"\ud800"`: every command refuses them when it reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from shell import assert_one_line, run_elmox
from tagged_files import NAMES, write_columns

from elmox.errors import ElmoxError
from elmox.io.json_lines import check_json_text
from elmox.probes.wsd.semcor import read_semcor
from elmox.tasks.entailment.readers import read_snli
from elmox.tasks.qa.squad import read_squad
from elmox.tasks.registry import find_task
from elmox.tasks.srl.propbank import read_propbank


@pytest.mark.parametrize(
    "source", [r'"\ud83d\ude00"', r'"\\ud800"', '"\\u00e9 😀"', r'{"a": ["\uD83D\uDE00"]}', "3"]
)
def test_text(source: str) -> None:
    check_json_text(source, json.loads(source))


@pytest.mark.parametrize(
    "source", [r'"\ud800"', r'"a\udfffb"', r'{"\uDC00": 1}', r'[["\ude00\ud83d"]]', r'"\\\ud800"']
)
def test_lone_surrogates(source: str) -> None:
    with pytest.raises(ElmoxError, match="is half a character") as caught:
        check_json_text(source, json.loads(source))
    assert str(caught.value).isascii()


def test_only_used_values_are_checked() -> None:
    values = json.loads(r'{"tokens": ["a"], "other": "\ud800"}')
    check_json_text(r'{"tokens": ["a"], "other": "\ud800"}', values["tokens"])


ROLES = {"sent_id": "s", "words": ["\ud800"], "xpos": ["X"], "props": []}
PAIR = {"gold_label": "neutral", "sentence1": "\ud800", "sentence2": "b", "pairID": "1"}
SENSES = {"tokens": ["\ud800"], "sense": [None]}
ASKED = {"id": "1", "question": "\ud800?", "answers": [{"text": "It", "answer_start": 0}]}
SQUAD = {"data": [{"paragraphs": [{"context": "It fell.", "qas": [ASKED]}]}]}


@pytest.mark.parametrize(
    ("read", "values", "where"),
    [
        (read_propbank, ROLES, "line 1"),
        (read_snli, PAIR, "line 1"),
        (read_semcor, SENSES, "line 1"),
        (read_squad, SQUAD, "the whole"),
    ],
)
def test_readers(read: Any, values: Any, where: str, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(values))
    with pytest.raises(ElmoxError, match=f"^{path}, {where}: .* is half a character"):
        list(read(path))


@pytest.mark.parametrize("how", [[], ["--tokens"], ["--json"]])
def test_score(how: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"tokens": ["\\ud800"]}\n')
    done = run_elmox("score", "english-small", path, *how)
    assert_one_line(done.returncode, done.stdout, done.stderr, "in.jsonl, line 1", "half a char")


def test_tag(tmp_path: Path) -> None:
    """Other keys of a line are part of the output, so they must be text, too."""
    names = write_columns(tmp_path / "names.txt", NAMES)
    files = ["--train", names, "--dev", names, "--out", tmp_path / "run"]
    tiny = ["words.dim=4", "words.filters=4", "head.hidden=[4]", "fit.epochs=1"]
    changes = [part for change in [*tiny, "fit.least_updates=1"] for part in ("--set", change)]
    done = run_elmox("fit", "ner", *files, "--elmo", "none", *changes)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "in.jsonl"
    path.write_text('{"tokens": ["a"]}\n{"tokens": ["a"], "who": "\\ud800"}\n')
    done = run_elmox("tag", tmp_path / "run" / "seed-0" / "model", path)
    assert_one_line(done.returncode, done.stdout, done.stderr, "in.jsonl, line 2", "half a char")


def test_fit(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(PAIR) + "\n")
    with pytest.raises(ElmoxError, match=r"in\.jsonl, line 1: .* is half a character"):
        find_task("nli").read(path)
    done = run_elmox("fit", "nli", "--train", path, "--dev", path, "--out", tmp_path / "run")
    assert_one_line(done.returncode, done.stdout, done.stderr, "in.jsonl, line 1", "half a char")
