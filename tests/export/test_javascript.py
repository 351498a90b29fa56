"""The tokenizers in JavaScript, under a real engine, against Python's."""

import json
import lzma
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.explore.files import PAGE
from elmox.export.javascript import to_javascript, tokenizer_file
from elmox.text.tokenize import get_tokenizer

TREEBANK = SHARED / "tasks" / "pos_parse_ud_ewt"
NAMES = ("treebank", "treebank:hyphens", "whitespace")
PROGRAM = """
import { readFileSync, writeFileSync } from "node:fs";
import { tokenPattern } from MODULE;
const { tokenizer, texts } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const pattern = tokenPattern(tokenizer);
writeFileSync(process.argv[3], JSON.stringify(texts.map((text) => text.match(pattern) ?? [])));
"""
MODULE = PAGE / "tokenize.js"
# Parts on which dialects or versions of Unicode disagree, or that have a rule of their own.
PARTS = (
    *"abcxyzABCXYZ.,'’`-&/%$@:;!?()[]{}\"0123456789_^~*+=<>|\\ \t\n\r\f\v",
    *("\ufeff", "\x1c", "\x1f", "\x85", "\xa0", "\u180e", "\u200b", "\u2028", "\u3000", "\u200d"),
    *("\u0130", "\u0131", "ſ", "K", "ß", "ﬁ", "e\u0301", "\u00ad", "\u200c", "²", "Ⅷ", "٣", "১"),
    *("can", "not", "gonna", "n't", "'s", "’ll", "http://", "HTTPſ://", "www.", ".com", ".ıo"),
    *("U.S.", "Ph.D.", "Mr.", "etc.", "No. 5", "1,000.50", "12:30", "5pm", "non-U.S.", "AT&T"),
    *("😀", "👩‍👩‍👧", "🇩🇪", "👍🏽", ":-)", "<3", "...", "--", "天氣", "नमस्ते", "\ud800", "\udc00"),
)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")


def in_javascript(name: str, texts: list[str], folder: Path) -> list[list[str]]:
    """The tokens that node finds."""
    program, given, results = folder / "tokens.mjs", folder / "given.json", folder / "found.json"
    program.write_text(PROGRAM.replace("MODULE", json.dumps(MODULE.as_uri())), "utf-8")
    given.write_text(json.dumps({"tokenizer": tokenizer_file(name), "texts": texts}), "ascii")
    subprocess.run(["node", program, given, results], check=True, timeout=600)
    tokens: list[list[str]] = json.loads(results.read_text("utf-8"))
    return tokens


def assert_same(name: str, texts: list[str], folder: Path) -> None:
    tokenize = get_tokenizer(name)
    different = [
        (text, tokens, tokenize(text))
        for text, tokens in zip(texts, in_javascript(name, texts, folder), strict=True)
        if tokens != tokenize(text)
    ]
    assert different == []


@needs_node
@pytest.mark.parametrize("name", NAMES)
def test_awkward_text(name: str, tmp_path: Path) -> None:
    rng = random.Random(0)
    texts = ["".join(rng.choices(PARTS, k=rng.randint(1, 12))) for _ in range(4000)]
    texts += ["".join(chr(rng.randrange(0x110000)) for _ in range(8)) for _ in range(1000)]
    texts += [f"a{chr(c)}b {chr(c)}" for c in range(0, 0x3400)]  # each one inside and alone
    # Two halves of a pair next to each other are two characters in Python, one in JavaScript.
    texts = [t.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for t in texts]
    assert_same(name, ["", " ", *texts], tmp_path)


@needs_node
@pytest.mark.skipif(not TREEBANK.is_dir(), reason=f"no treebank at {TREEBANK}")
@pytest.mark.parametrize("name", NAMES)
def test_all_text_of_the_treebank(name: str, tmp_path: Path) -> None:
    texts = []
    for path in sorted(TREEBANK.glob("*.conllu.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as file:
            texts += [line[9:].rstrip("\n") for line in file if line.startswith("# text = ")]
    assert len(texts) > 16_000
    assert_same(name, texts, tmp_path)


def test_long_classes_are_written_once() -> None:
    tokenizer = tokenizer_file("treebank")
    assert len(set(tokenizer["classes"])) == len(tokenizer["classes"])
    assert len(tokenizer["source"]) < 10_000
    assert len(json.dumps(tokenizer)) < 100_000


def test_a_tokenizer_that_is_no_expression() -> None:
    assert tokenizer_file("spacy:de") == {
        "name": "spacy:de",
        "source": None,
        "classes": [],
        "flags": "gu",
    }


@pytest.mark.parametrize("pattern", [r"(a)b", r"\bword", r"(?P<x>a)(?P=x)"])
def test_expressions_without_a_translation_are_refused(pattern: str) -> None:
    with pytest.raises(ElmoxError, match="a tokenizer's expression has a"):
        to_javascript(re.compile(pattern))
