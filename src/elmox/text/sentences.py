"""Sentence splitter: running text to sentences, by rule.

The biLM reads one sentence at a time, so running text is split into sentences before those are
split into words.

- A line break ends a sentence.
- Inside a line, an end mark (`.`, `!`, `?`, an ellipsis) ends a sentence if white space follows it
  and the quotes and brackets that close after it.
- Exceptions depend on the word before (an abbreviation, an initial, the number of a list item) and
  on the word after (in lower case). They are made for English.
- The end marks of other scripts, such as `。`, `؟` and `।`, always end a sentence.

Nothing is lost except the white space between sentences.
"""

import re

from elmox.text.tokenize import (
    ABBREVIATIONS,
    LEADING_ABBREVIATIONS,
    NUMBER_ABBREVIATIONS,
    Tokenizer,
)

_LEADING_ABBREVIATIONS = frozenset(LEADING_ABBREVIATIONS.split()) | {"e.g", "i.e"}
_NUMBER_ABBREVIATIONS = frozenset(NUMBER_ABBREVIATIONS.split())
_ABBREVIATIONS = frozenset(ABBREVIATIONS.split())

# Capitalized words that start a sentence even after an abbreviation.
_STARTER_WORDS = (
    "A After All Also Although An And Another As At Because Before Both But By During Each Even "
    "For From He Her Here His How However I If In It Its Later Many More Most My No Not Now On One "
    "Only Other Our She Since So Some Such That The Their Then There These They This Those Though "
    "Thus To Under Until We What When Where Which While Who Why With Yet You Your"
)
_STARTERS = frozenset(_STARTER_WORDS.split())

_OPENERS = "\"'“‘«(\\[{「『（"
_CLOSERS = "\"'”’»)\\]}」』）】》"
_END = re.compile(
    # English: marks, perhaps with spaces between; closing signs or smileys; the word that follows.
    rf"(?<![.!?…])(?P<mark>[.!?…]++(?:\s++[.!?…]++){{0,8}}+)(?P<close>[{_CLOSERS}]*+)"
    rf"(?:\s*+[:;=]-?[()DP]++(?!\w))*+(?=\s++[{_OPENERS}]*+(?P<next>\w++|\S))"
    # Scripts whose end mark is unambiguous and needs no space.
    rf"|[。！？｡।॥۔؟։።။។]++[{_CLOSERS}]*+"
)
_LAST_WORD = re.compile(r"[\w.]*\Z")
_LAST_WORD_REACH = 24
_INITIALS = re.compile(r"[A-HJ-Z]|[A-Za-z](?:\.[A-Za-z])+|Ph\.D")  # `I` is a word or a numeral
_ITEM = re.compile(r"\W{0,8}(?:\d{1,2}|[A-Za-z]|[ivxIVX]{1,4})")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def split_sentences(text: str, wrapped: bool = False) -> list[str]:
    """Split running text into sentences, without the white space around them.

    Args:
        text: running text, a paragraph per line.
        wrapped: the lines are wrapped, so that only a blank line ends a paragraph.
    """
    paragraphs = _BLANK_LINE.split(text) if wrapped else text.splitlines()
    return [sentence for paragraph in paragraphs for sentence in _split_paragraph(paragraph)]


def sentences_of(text: str, tokenizer: Tokenizer, wrapped: bool = False) -> list[list[str]]:
    """Split running text into sentences, and those into tokens; see `split_sentences`."""
    return [tokenizer(sentence) for sentence in split_sentences(text, wrapped)]


def _split_paragraph(paragraph: str) -> list[str]:
    start = 0
    pieces = []
    for match in _END.finditer(paragraph):
        if match["mark"] is None or _is_end(paragraph, start, match):
            pieces.append(paragraph[start : match.end()])
            start = match.end()
    pieces.append(paragraph[start:])
    return [sentence for piece in pieces if (sentence := piece.strip())]


def _is_end(paragraph: str, start: int, match: re.Match[str]) -> bool:
    """Return whether the sentence from `start` ends at the English end mark in `match`."""
    mark, following = match["mark"], match["next"]
    reach = max(start, match.start() - _LAST_WORD_REACH)
    word = _LAST_WORD.findall(paragraph, reach, match.start())[0]
    if mark == ".":
        if word in _LEADING_ABBREVIATIONS or _ITEM.fullmatch(paragraph, start, match.start()):
            return False
        if word in _NUMBER_ABBREVIATIONS and following[0].isdigit():
            return False
        if word in _ABBREVIATIONS or _INITIALS.fullmatch(word):
            return following in _STARTERS or (word == "etc" and following[0].isupper())
    if following[0].islower():
        # Informal text has no capitals. No end: `"Really?" she asked`, `Yahoo! is`, `so ... yes`.
        return word.islower() and not match["close"] and mark[:2] not in ("..", "…", ". ")
    return True
