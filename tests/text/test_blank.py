"""The gap `___` in tokens and in running text, for every tokenizer."""

import pytest

from elmox.errors import ElmoxError
from elmox.text.blank import position_of_blank, tokenize_with_blank
from elmox.text.tokenize import get_tokenizer

TOKENIZERS = ["treebank", "treebank:hyphens", "whitespace", "spacy:en", "spacy:zh"]


def tokenize(text: str, name: str) -> str:
    """The tokens of a sentence with a gap, with spaces between them."""
    if name.startswith("spacy:"):
        pytest.importorskip("spacy")
    return " ".join(tokenize_with_blank(text, get_tokenizer(name)))


@pytest.mark.parametrize("name", TOKENIZERS[:-1])
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I will buy you a ___.", "I will buy you a ___ ."),
        ("I will buy you a ___ .", "I will buy you a ___ ."),
        ("(___)", "( ___ )"),
        ("a ___'s price", "a ___ 's price"),
        ("___, please!", "___ , please!"),
        ("I will buy _____", "I will buy ___"),
        ("___", "___"),
    ],
)
def test_gap_next_to_punctuation(name: str, text: str, tokens: str) -> None:
    if name != "whitespace":
        tokens = tokens.replace("please!", "please !")
    assert tokenize(text, name) == tokens


def test_other_words_are_split_as_usual() -> None:
    """An abbreviation before the gap keeps its period, which would be cut off at a text's end."""
    assert tokenize("I met Mr. ___ in the U.S.", "treebank") == "I met Mr. ___ in the U.S ."
    assert tokenize("He ___n't go.", "treebank") == "He ___ n't go ."
    assert tokenize("a ___-year-old", "treebank") == "a ___ -year-old"


def test_a_tokenizer_of_single_characters() -> None:
    assert " ".join(tokenize_with_blank("我___你。", list)) == "我 ___ 你 。"


@pytest.mark.parametrize("text", ["no gap", "a __ gap", "___ and ___"])
def test_one_gap_is_needed(text: str) -> None:
    message = r"the sentence has (no gap|2 gaps) ___: .* or give position"
    with pytest.raises(ElmoxError, match=message):
        tokenize(text, "treebank")
    with pytest.raises(ElmoxError, match=message):
        position_of_blank(text.split())


@pytest.mark.parametrize("text", ["un___able", "many ___s", "19___ was"])
def test_a_gap_within_a_word(text: str) -> None:
    with pytest.raises(ElmoxError, match="only part of a word"):
        tokenize(text, "treebank")


def test_position() -> None:
    assert position_of_blank(["a", "___", "."]) == 1
