"""The sentence splitter: ends by example, no text lost, linear time, agreement with EWT."""

import runpy
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared
from split_examples import EXAMPLES, joined

from elmox.text.sentences import sentences_of, split_sentences
from elmox.text.tokenize import get_tokenizer

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "tokenizer.py"


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    assert split_sentences(joined(example)) == [sentence.strip() for sentence in example.split("|")]


def test_wrapped_lines_continue() -> None:
    text = "It was a dark\nand stormy night. It\nrained.\n\nThe end\r\n \r\nof it"
    assert split_sentences(text, wrapped=True) == [
        "It was a dark\nand stormy night.",
        "It\nrained.",
        "The end",
        "of it",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n \r\n\t"])
def test_nothing_has_no_sentences(text: str) -> None:
    assert split_sentences(text) == []


def test_sentences_of_gives_tokens() -> None:
    assert sentences_of("I can't. Why?\nNo.", get_tokenizer("treebank")) == [
        ["I", "ca", "n't", "."],
        ["Why", "?"],
        ["No", "."],
    ]


@given(
    text=st.text()
    | st.text(alphabet="aAI1.!?… \n\r\t\"')(:。\u2028\x1c")
    | st.lists(
        st.sampled_from(["Mr.", "U.S.", "e.g.", " ", "1.", "The", "end", ".", "? ", "\n"])
    ).map("".join),
    wrapped=st.booleans(),
)
def test_only_white_space_is_lost(text: str, wrapped: bool) -> None:
    sentences = split_sentences(text, wrapped)
    position = 0
    for sentence in sentences:
        assert sentence == sentence.strip() != ""
        start = text.index(sentence, position)
        assert not text[position:start].strip()
        position = start + len(sentence)
    assert not text[position:].strip()


@pytest.mark.parametrize(
    "unit", ["a.", ". ", ".", "a ", " ", ".)", "U.S. a ", "(. ", "Mr. ", "\n", ". :)", ". .b "]
)
def test_time_is_linear(unit: str) -> None:
    """A megabyte takes seconds at most; a quadratic splitter would take hours."""
    text = "(" * 1000 + unit * (1_000_000 // len(unit)) + "b!"
    start = time.process_time()
    sentences = split_sentences(text)
    assert time.process_time() - start < 30
    assert "".join("".join(sentences).split()) == "".join(text.split())


@needs_shared
def test_agreement_with_ud_ewt() -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    paragraphs = benchmark["read_conllu"](SHARED / "tasks/pos_parse_ud_ewt/en_ewt-ud-dev.conllu.xz")
    ends = benchmark["sentence_scores"](paragraphs)["ends"]
    assert ends.precision >= 98.0
    assert ends.f1 >= 92.0
