"""A tokenizer's Python expression as a JavaScript one that finds the same tokens.

The translation is mechanical: it walks Python's own syntax tree, so that a change of the tokenizer
needs none here. Where the two dialects differ:

| Python | JavaScript (flags `gu`) |
|---|---|
| `x++`, possessive | `(?=(x+))\\1`, a lookahead that is not entered again |
| `\\w`, `\\s`, `\\d` and other classes | the code points that this Python matches, as ranges |
| `(?i:x)` | every code point that Python's rule lets `x` match |
| `\\A`, `\\Z` | `^`, `$` |

Classes are spelled out because engines follow different versions of Unicode, and JavaScript's `\\s`
includes U+FEFF. Long ones are written once, in a table, and the expression refers to them as `%3%`.
"""

import re
from collections.abc import Iterable
from functools import cache
from re import _constants as constants  # type: ignore[attr-defined]  # not in its stubs
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from elmox.errors import ElmoxError
from elmox.text.tokenize import treebank_pattern

MAX_CODE_POINT = 0x10FFFF
MIN_TABLE_LENGTH = 40  # shorter classes are written where they occur
FLAGS = "gu"
CodePoints = tuple[int, int]  # the first and the last of a range
_SYNTAX = set("\\^$.|?*+()[]{}/")
_ANCHORS = {
    constants.AT_BEGINNING_STRING: "^",
    constants.AT_BEGINNING: "^",
    constants.AT_END_STRING: "$",
}


class JavaScriptPattern(NamedTuple):
    """An expression and its table of classes.

    In JavaScript: `new RegExp(source.replace(/%(\\d+)%/g, (_, i) => classes[i]), "gu")`.
    """

    source: str
    classes: list[str]


def tokenizer_file(name: str) -> dict[str, Any]:
    """Return the content of tokenizer.json for a tokenizer; `source` is null if it is no pattern.

    Args:
        name: see `elmox.text.tokenize`.
    """
    if name.startswith("spacy:"):
        return {"name": name, "source": None, "classes": [], "flags": FLAGS}
    pattern = (
        re.compile(r"\S+") if name == "whitespace" else treebank_pattern(name == "treebank:hyphens")
    )
    source, classes = to_javascript(pattern)
    return {"name": name, "source": source, "classes": classes, "flags": FLAGS}


def to_javascript(pattern: re.Pattern[str]) -> JavaScriptPattern:
    """Translate a compiled expression.

    Raises:
        ElmoxError: it uses something that has no translation here, such as a capturing group.
    """
    translator = _Translator()
    source = translator.sequence(parser.parse(pattern.pattern, pattern.flags), ignore_case=False)
    return JavaScriptPattern(source, list(translator.classes))


class _Translator:
    """A walk over the tree that `re` parses an expression into."""

    def __init__(self) -> None:
        self.classes: dict[str, int] = {}
        self._num_groups = 0

    def sequence(self, nodes: Any, ignore_case: bool) -> str:
        return "".join(self._node(kind, value, ignore_case) for kind, value in nodes)

    def _node(self, kind: Any, value: Any, ignore_case: bool) -> str:
        if kind in (constants.LITERAL, constants.NOT_LITERAL, constants.IN):
            items = tuple(value) if kind is constants.IN else value
            return self._class(_written(kind, items, ignore_case))
        if kind is constants.BRANCH:
            return f"(?:{'|'.join(self.sequence(part, ignore_case) for part in value[1])})"
        if kind is constants.SUBPATTERN:
            group, added, removed, inner = value
            if group is not None:
                raise ElmoxError("a tokenizer's expression has a capturing group: use (?:...)")
            ignore_case = bool(added & re.I) or (ignore_case and not removed & re.I)
            return f"(?:{self.sequence(inner, ignore_case)})"
        if kind in (constants.ASSERT, constants.ASSERT_NOT):
            direction, inner = value
            sign = "=" if kind is constants.ASSERT else "!"
            behind = "<" if direction < 0 else ""
            return f"(?{behind}{sign}{self.sequence(inner, ignore_case)})"
        if kind is constants.AT and value in _ANCHORS:
            return _ANCHORS[value]
        if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            return self._repeat(kind, value, ignore_case)
        raise ElmoxError(f"a tokenizer's expression has a {kind}, which has no translation")

    def _repeat(self, kind: Any, value: Any, ignore_case: bool) -> str:
        least, most, inner = value
        possessive = kind is constants.POSSESSIVE_REPEAT
        if possessive:  # groups are numbered by their opening bracket, which comes before `inner`
            self._num_groups += 1
            group = self._num_groups
        repeated = f"(?:{self.sequence(inner, ignore_case)}){_quantifier(least, most)}"
        if possessive:
            return rf"(?=({repeated}))\{group}(?:)"  # (?:) ends the number
        return f"{repeated}?" if kind is constants.MIN_REPEAT else repeated

    def _class(self, written: str) -> str:
        if len(written) < MIN_TABLE_LENGTH:
            return written
        return f"%{self.classes.setdefault(written, len(self.classes))}%"


def _quantifier(least: int, most: Any) -> str:
    if most is constants.MAXREPEAT:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return "?" if (least, most) == (0, 1) else f"{{{least},{most}}}"


@cache
def _written(kind: Any, value: Any, ignore_case: bool) -> str:
    """Return the code points that a literal or a class matches, as JavaScript writes them."""
    items: Any = value if kind is constants.IN else ((constants.LITERAL, value),)
    negated = kind is constants.NOT_LITERAL or items[0][0] is constants.NEGATE
    ranges = _united(
        pair for k, v in items if k is not constants.NEGATE for pair in _item(k, v, ignore_case)
    )
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not negated:
        return _escaped(ranges[0][0])
    inside = "".join(
        _escaped(first) if first == last else f"{_escaped(first)}-{_escaped(last)}"
        for first, last in ranges
    )
    return f"[{'^' if negated else ''}{inside}]"


def _united(ranges: Iterable[CodePoints]) -> list[CodePoints]:
    """Return ranges in order, those that touch or overlap as one."""
    united: list[CodePoints] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(last, united[-1][1])
        else:
            united.append((first, last))
    return united


def _item(kind: Any, value: Any, ignore_case: bool) -> Iterable[CodePoints]:
    """Return the code points of one item of a class."""
    if kind is constants.CATEGORY:
        return _category(value)
    first, last = value if kind is constants.RANGE else (value, value)
    if not ignore_case:
        return [(first, last)]
    return [pair for code_point in range(first, last + 1) for pair in _any_case(code_point)]


@cache
def _category(category: Any) -> list[CodePoints]:
    r"""Return the code points of \w, \s, \d or of their opposites, by asking `re` itself."""
    name = str(category).removeprefix("CATEGORY_")
    letter = {"WORD": "w", "SPACE": "s", "DIGIT": "d"}.get(name.removeprefix("NOT_"))
    if letter is None:
        raise ElmoxError(f"a tokenizer's expression has a {category}, which has no translation")
    letter = letter.upper() if name.startswith("NOT_") else letter
    return [(m.start(), m.end() - 1) for m in re.finditer(rf"\{letter}+", _every_character())]


@cache
def _every_character() -> str:
    """Return all characters in order, so that a position is a code point."""
    return "".join(map(chr, range(MAX_CODE_POINT + 1)))


@cache
def _any_case(code_point: int) -> list[CodePoints]:
    """Return what a literal matches without regard to case; also `ſ` for `s`, for example."""
    matches = re.compile(re.escape(chr(code_point)), re.IGNORECASE).fullmatch
    return [(c, c) for c in (*_cased(), code_point) if matches(chr(c))]


@cache
def _cased() -> tuple[int, ...]:
    """Return all code points that have another case."""
    characters = map(chr, range(MAX_CODE_POINT + 1))
    return tuple(ord(c) for c in characters if c.lower() != c or c.upper() != c)


def _escaped(code_point: int) -> str:
    """Write one code point so that it means itself inside and outside of a class."""
    character = chr(code_point)
    if character in _SYNTAX:
        return f"\\{character}"
    plain = 32 <= code_point < 127 and character not in "%-"
    return character if plain else f"\\u{{{code_point:x}}}"
