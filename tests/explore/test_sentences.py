"""The page's sentence splitter, under a real engine, against Python's."""

import json
import lzma
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from shared_data import SHARED, needs_shared
from split_examples import EXAMPLES, joined

from elmox.explore.files import PAGE
from elmox.text import sentences as rules
from elmox.text.sentences import split_sentences

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no node")

PROGRAM = """
import { readFileSync, writeFileSync } from "node:fs";
import { splitSentences } from MODULE;
const texts = JSON.parse(readFileSync(process.argv[2], "utf8"));
writeFileSync(process.argv[3], JSON.stringify(texts.map(splitSentences)));
"""
# Parts on which the rules depend, and those on which the two languages disagree.
PARTS = (
    *(
        "It rained",
        "He left",
        "i went",
        "The end",
        "so",
        "etc",
        "Really",
        "No",
        "5",
        "12",
        "²",
        "a",
    ),
    *(".", ".", ". ", "! ", "? ", "…", "...", " . . . ", "?! ", "\n", "\r\n", " ", "  ", "\t"),
    *(
        '"',
        "'",
        "”",
        "’",
        ")",
        "(",
        "[",
        "«",
        "»",
        "「",
        "」",
        " :) ",
        " ;-) ",
        ":)(x",
        ":DP",
        "。",
        "؟",
    ),
    *("।", "\x1c", "\x1f", "\x85", "\xa0", "\u2028", "\u3000", "\ufeff", "\u200b", "_", "é", "É"),
    *("ǅ", "ª", "天", "😀", "Ph.D", "U.S", "e.g", "Mr", "J", "I", "iv", "p.m", "Fig", "e\u0301"),
)
WORDS = sorted(rules._ABBREVIATIONS | rules._LEADING_ABBREVIATIONS | rules._NUMBER_ABBREVIATIONS)


def assert_same(texts: list[str], folder: Path) -> None:
    program, given, results = folder / "split.mjs", folder / "given.json", folder / "results.json"
    program.write_text(PROGRAM.replace("MODULE", json.dumps((PAGE / "sentences.js").as_uri())))
    given.write_text(json.dumps(texts), "ascii")
    subprocess.run(["node", program, given, results], check=True, timeout=600)
    different = [
        (text, sentences, split_sentences(text))
        for text, sentences in zip(texts, json.loads(results.read_text("utf-8")), strict=True)
        if sentences != split_sentences(text)
    ]
    assert different == []


def test_every_word_of_the_rules(tmp_path: Path) -> None:
    texts = [f"We met {word}. {then}" for word in WORDS for then in ("5 left.", "The end.", "Bo.")]
    texts += map(joined, EXAMPLES)
    texts += [f"It was Jan. {word} left." for word in sorted(rules._STARTERS)]
    assert_same(texts, tmp_path)


def test_awkward_text(tmp_path: Path) -> None:
    rng = random.Random(0)
    texts = ["".join(rng.choices(PARTS, k=rng.randint(1, 16))) for _ in range(20_000)]
    assert_same(["", *texts], tmp_path)


@needs_shared
def test_a_treebank(tmp_path: Path) -> None:
    with lzma.open(SHARED / "tasks/pos_parse_ud_ewt/en_ewt-ud-train.conllu.xz", "rt") as file:
        lines = [line[9:].rstrip("\n") for line in file if line.startswith("# text = ")]
    assert_same([" ".join(lines[i : i + 5]) for i in range(0, len(lines), 5)], tmp_path)
