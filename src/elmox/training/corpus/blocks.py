"""A block of text to word ids of that block: the slow part of `prepare`, which runs on all cores.

    0 end of a document   1 end of a sentence   2 <UNK>   3 <S>   4 </S>   5.. words as they occur

The ids are renumbered when the blocks are collected. Workers share no table, so they need no memory
except for the block, and the result does not depend on their number. NumPy is not imported, so that
a worker starts at once.
"""

from array import array
from dataclasses import dataclass
from functools import cache

from elmox.io.text_files import not_utf8
from elmox.text.sentences import split_sentences
from elmox.text.tokenize import Tokenizer, get_tokenizer
from elmox.training.corpus.sources import Block

DOCUMENT_END, SENTENCE_END, UNKNOWN, LITERAL_BEGIN, LITERAL_END = range(5)
FIRST_WORD = 5

_SENTENCE_MARK = "\n"  # neither mark can be a word
_DOCUMENT_MARK = ""
_FIXED = {
    _DOCUMENT_MARK: DOCUMENT_END,
    _SENTENCE_MARK: SENTENCE_END,
    "<UNK>": UNKNOWN,
    "<S>": LITERAL_BEGIN,
    "</S>": LITERAL_END,
}

_tokenizer = cache(get_tokenizer)


@dataclass(frozen=True)
class NumberedBlock:
    """A block as ids.

    Attributes:
        ids: uint32, each sentence followed by 1 and each document by 0. The block may begin with 0,
            which ends a document of the previous block, if one is open.
        words: the words of the ids from 5 on, with line ends between them.
        ends_file, position: as in `Block`.
    """

    ids: bytes
    words: str
    ends_file: bool
    position: int


def number_block(block: Block, tokenizer: str | None) -> NumberedBlock:
    """Split a block into words and number them.

    Args:
        block: whole lines.
        tokenizer: the name of a tokenizer for running text; None if each line is a tokenized
            sentence.
    """
    lines = _decoded(block).split("\n")
    words = _split(lines) if tokenizer is None else _tokenize(lines, _tokenizer(tokenizer))
    numbers = _Numbers(_FIXED)
    ids = array("I", map(numbers.__getitem__, words))
    distinct = list(numbers)[FIRST_WORD:]
    return NumberedBlock(ids.tobytes(), "\n".join(distinct), block.ends_file, block.position)


def _decoded(block: Block) -> str:
    data = block.data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = block.first_line + data.count(b"\n", 0, error.start)
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise not_utf8(block.path, line, column, data[error.start]) from None


def _split(lines: list[str]) -> list[str]:
    """Return all words, with a mark after each sentence and each document."""
    words: list[str] = []
    last = _end_of_lines(lines)
    for line in lines[:last]:
        if sentence := line.split():
            words += sentence
            words.append(_SENTENCE_MARK)
        elif not words or words[-1] != _DOCUMENT_MARK:
            words.append(_DOCUMENT_MARK)
    return words


def _tokenize(lines: list[str], tokenizer: Tokenizer) -> list[str]:
    """Return the same for running text."""
    words: list[str] = []
    for line in lines[: _end_of_lines(lines)]:
        for text in split_sentences(line):
            if sentence := tokenizer(text):
                words += sentence
                words.append(_SENTENCE_MARK)
        if not line.strip() and (not words or words[-1] != _DOCUMENT_MARK):
            words.append(_DOCUMENT_MARK)
    return words


def _end_of_lines(lines: list[str]) -> int:
    """Return the number of lines; an empty string after the last line end is none."""
    return len(lines) - (not lines[-1])


class _Numbers(dict[str, int]):
    """Numbers words as they occur."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
