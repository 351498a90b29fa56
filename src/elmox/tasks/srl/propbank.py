"""PropBank's semantic roles as JSON lines: a sentence per line, words counted from 0.

    {"sent_id": "...", "words": ["It", "fell"], "xpos": ["PRP", "VBD"], "props": [
        {"pred": 1, "lemma": "fall", "frame": "fall.01", "args": [["ARG1", 0, 0], ["V", 1, 1]]}]}

The two numbers of an argument are its first and its last word. CoNLL-2012 files have propositions
too: `elmox.tasks.data.conll2012`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.io.json_lines import read_json_lines, string_field, strings_field
from elmox.tasks.data.propositions import Argument, Proposition, RoleSentence, checked_proposition


def read_propbank(path: Path) -> Iterator[RoleSentence]:
    """Read the sentences of a file, plain or compressed.

    Raises:
        ElmoxError: a line is malformed; the message names file, line and what was expected.
    """
    return read_json_lines(path, _sentence)


def _sentence(values: dict[str, Any]) -> RoleSentence:
    words, xpos = strings_field(values, "words"), strings_field(values, "xpos")
    if not words or len(words) != len(xpos):
        raise ElmoxError(f"{len(words)} words, {len(xpos)} tags: expected as many, at least one")
    props = values.get("props")
    if not isinstance(props, list):
        raise ElmoxError(f"props is {props!r:.60}, expected a list of propositions")
    return RoleSentence(
        id=string_field(values, "sent_id"),
        words=words,
        xpos=xpos,
        propositions=tuple(_proposition(prop, len(words)) for prop in props),
    )


def _proposition(values: Any, num_words: int) -> Proposition:
    if not isinstance(values, dict):
        raise ElmoxError(f"a proposition is {values!r:.60}, expected an object")
    pred, args = values.get("pred"), values.get("args")
    if type(pred) is not int:
        raise ElmoxError(f"pred is {pred!r:.60}, expected the number of a word")
    if not isinstance(args, list):
        raise ElmoxError(f"args is {args!r:.60}, expected a list of [label, first, last]")
    return checked_proposition(
        pred,
        string_field(values, "lemma"),
        string_field(values, "frame"),
        map(_argument, args),
        num_words,
    )


def _argument(values: Any) -> Argument:
    match values:
        case [str(label), int(first), int(last)] if label:
            return Argument(label, first, last + 1)
    raise ElmoxError(f"an argument is {values!r:.60}, expected [label, first, last]")
