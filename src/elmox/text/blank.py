"""The gap in a sentence, `___`: the word that a language model predicts.

In a list of tokens it is a token of its own. In running text it may touch punctuation, as any word
does: `I buy a ___.`, `(___)`, `___'s`.
"""

import re
from collections.abc import Callable, Sequence

from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.text.offsets import token_offsets

BLANK = "___"
_BLANKS = re.compile("_{3,}")  # underscores are easily miscounted
_WORD = "word"  # the tokenizer reads this in place of the gap: a plain word in any language


def position_of_blank(tokens: Sequence[str]) -> int:
    """Return the index of the one token `___`."""
    tokens = list(tokens)
    _require_one(tokens.count(BLANK))
    return tokens.index(BLANK)


def tokenize_with_blank(text: str, tokenize: Callable[[str], list[str]]) -> list[str]:
    """Tokenize a sentence with one gap, which becomes a token of its own.

    The tokenizer reads a plain word instead of the gap, so that everything around it is split as
    usual. If the tokenizer leaves punctuation on words, it is split off here.
    """
    sides = _BLANKS.split(text)
    _require_one(len(sides) - 1)
    left, right = sides
    filled = f"{left}{_WORD}{right}"
    start, end = len(left), len(left) + len(_WORD)
    tokens = tokenize(filled)
    spans = token_offsets(filled, tokens)
    inside = [i for i, span in enumerate(spans) if span[0] < end and span[1] > start]
    first, last = inside[0], inside[-1]
    before, after = filled[spans[first][0] : start], filled[end : spans[last][1]]
    if before[-1:].isalnum() or after[:1].isalnum():
        raise ElmoxError(
            f"the gap of {before}{BLANK}{after} is only part of a word: a whole word is predicted, "
            "put spaces around the gap"
        )
    middle = [part for part in (before, BLANK, after) if part]
    return [*tokens[:first], *middle, *tokens[last + 1 :]]


def _require_one(num_blanks: int) -> None:
    if num_blanks != 1:
        gaps = f"{num_blanks} gaps {BLANK}" if num_blanks else f"no gap {BLANK}"
        raise ArgumentError(
            "the sentence has {}: mark one word with it, or give {}", gaps, Argument("position")
        )
