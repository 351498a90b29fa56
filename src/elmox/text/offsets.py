"""Character offsets of tokens: where in a text each of its tokens is.

Tokens and text are read side by side. The tokens must cover the whole text except white space, so a
token that the text does not contain is an error and never a guess. A tokenizer may rewrite signs as
the Penn Treebank does: quotes, brackets (`-LRB-`), dashes, ellipses, `\\/`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from elmox.errors import ElmoxError

Offsets = tuple[int, int]  # start and end of a token: text[start:end]

_NO_SPACE = re.compile(r"\S")
_DOUBLE_QUOTE = """(?:``|''|["“”„«»])"""
_SINGLE_QUOTE = "['’‘`´]"
_REWRITTEN = {
    **dict.fromkeys(("``", "''", '"'), _DOUBLE_QUOTE),
    **dict.fromkeys(("'", "’", "‘", "`"), _SINGLE_QUOTE),
    "-LRB-": r"\(", "-RRB-": r"\)",
    "-LSB-": r"\[", "-RSB-": r"\]",
    "-LCB-": r"\{", "-RCB-": r"\}",
    "\\/": "/", "\\*": r"\*",
    "...": r"(?:…|\.\s*\.\s*\.)", "--": "(?:--|–|—)",
    " ": r"\s+",
}  # fmt: skip
_PIECES = re.compile("|".join(map(re.escape, _REWRITTEN)))


def token_offsets(text: str, tokens: Iterable[str]) -> list[Offsets]:
    """Return the (start, end) of each token in the text, in characters.

    Args:
        text: what was tokenized.
        tokens: all of its tokens, in order.

    Raises:
        ElmoxError: the tokens are not those of the text.
    """
    offsets = []
    end = 0
    for token in tokens:
        start = _next_character(text, end)
        if token and text.startswith(token, start):
            end = start + len(token)
        else:
            match = _source_form(token).match(text, start)
            if not token or match is None:
                raise ElmoxError(
                    f"token {token!r} is not in the text at character {start}, which continues "
                    f"with {text[start : start + 20]!r}: expected all tokens of the text, in order"
                )
            end = match.end()
        offsets.append((start, end))
    if (rest := _next_character(text, end)) < len(text):
        raise ElmoxError(
            f"the text from character {rest}, {text[rest : rest + 20]!r}, is in no token: expected "
            "all tokens of the text, in order"
        )
    return offsets


def joined_offsets(tokens: Iterable[str]) -> list[Offsets]:
    """Return the (start, end) of each token in `" ".join(tokens)`, whatever the tokens contain."""
    ends = list(accumulate(len(token) + 1 for token in tokens))
    starts = [0, *ends]
    return [(start, end - 1) for start, end in zip(starts, ends, strict=False)]


def _next_character(text: str, start: int) -> int:
    """Return the position of the next character that is not white space, or the text's end."""
    match = _NO_SPACE.search(text, start)
    return len(text) if match is None else match.start()


@lru_cache(4096)
def _source_form(token: str) -> re.Pattern[str]:
    """Return an expression for what a tokenizer may have rewritten as this token."""
    parts = []
    end = 0
    for match in _PIECES.finditer(token):
        parts += [re.escape(token[end : match.start()]), _REWRITTEN[match[0]]]
        end = match.end()
    return re.compile("".join([*parts, re.escape(token[end:])]))
