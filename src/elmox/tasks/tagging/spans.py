"""Spans written as tags, one a word, and the schemes for it.

             Ada  Lovelace  met  Charles  Babbage  London  Paris  .
    BIO      B-P  I-P       O    B-P      I-P      B-L     B-L    O
    IOB1     I-P  I-P       O    I-P      I-P      I-L     B-L    O
    BIOUL    B-P  L-P       O    B-P      L-P      U-L     U-L    O

BIO (also IOB2) marks every beginning, IOB1 (CoNLL-2003 as published) only one right after a span of
the same label, BIOUL every beginning and every last word, and a span of one word (unit) apart.
BIOES is BIOUL with E for L and S for U, and is read as such. Tags without a label (`B`, `I`) are
those of the label "".
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmox.errors import ElmoxError

Scheme = Literal["BIO", "IOB1", "BIOUL"]

OUTSIDE = "O"

_PREFIXES: dict[Scheme, str] = {"BIO": "BI", "IOB1": "BI", "BIOUL": "BIULES"}
_BIOES = {"E": "L", "S": "U"}


class Span(NamedTuple):
    """Words `start` up to, but without, `end_exclusive`, both counted from 0, and their label."""

    start: int
    end_exclusive: int
    label: str


class Transitions(NamedTuple):
    """Which tags may stand where; C tags, in the order of the labels they were made for."""

    starts: NDArray[np.bool_]  # (C,) whether a sentence may start with it
    ends: NDArray[np.bool_]  # (C,) whether it may end with it
    pairs: NDArray[np.bool_]  # (C, C) whether the second may follow the first


class _Tag(NamedTuple):
    prefix: str  # O, B, I, U or L
    label: str


def scheme_of(tags: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that sentences are tagged in; BIO when nothing tells.

    Real files have slips. Where a file is neither clean BIO nor clean IOB1, it is the one that it
    violates less often, BIO when equal; both are read alike by `spans_of`.

    Raises:
        ElmoxError: a tag belongs to no scheme, like those of parts of speech.
    """
    is_bioul, against_bio, against_iob1 = False, 0, 0
    for sentence in tags:
        before = _Tag(OUTSIDE, "")
        for tag in sentence:
            now = _split(tag, "BIOUL")
            is_bioul |= now.prefix in ("U", "L")
            inside = before.prefix != OUTSIDE and before.label == now.label
            against_bio += now.prefix == "I" and not inside
            against_iob1 += now.prefix == "B" and not inside
            before = now
    if is_bioul:
        return "BIOUL"
    return "IOB1" if against_iob1 < against_bio else "BIO"


def spans_of(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The spans of a sentence, from left to right.

    Ill-formed sequences have spans too, those that the shared tasks' conlleval finds: what goes on
    (I, L) after O or after another label begins a span, and what begins (B, U) always does. In
    BIOUL a span ends at L and U, and also where no word goes on with it.
    """
    spans = []
    start, label = 0, None  # of the open span; None when none is open
    for place, tag in enumerate(tags):
        now = _split(tag, scheme)
        if label is not None and (now.prefix not in ("I", "L") or now.label != label):
            spans.append(Span(start, place, label))
            label = None
        if label is None and now.prefix != OUTSIDE:
            start, label = place, now.label
        if label is not None and now.prefix in ("U", "L"):
            spans.append(Span(start, place + 1, label))
            label = None
    if label is not None:
        spans.append(Span(start, len(tags), label))
    return spans


def tag_of(prefix: str, label: str) -> str:
    """A tag as it is written."""
    return f"{prefix}-{label}" if label else prefix


def tags_of(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags of a sentence of `length` words with these spans, which must not overlap."""
    tags = [OUTSIDE] * length
    end, before = 0, None  # of the span before
    for span in sorted(spans):
        if not end <= span.start < span.end_exclusive <= length:
            raise ElmoxError(
                f"{span} in a sentence of {length} words, after a span that ends at {end}: "
                "expected spans of at least one word that do not overlap"
            )
        touches = span.start == end and span.label == before
        for place, prefix in enumerate(_prefixes(span, touches, scheme), start=span.start):
            tags[place] = tag_of(prefix, span.label)
        end, before = span.end_exclusive, span.label
    return tags


def converted(tags: Sequence[str], scheme: Scheme, to: Scheme) -> list[str]:
    """Convert tags from one scheme to another; to the same scheme, this repairs ill-formed tags."""
    return tags_of(spans_of(tags, scheme), len(tags), to)


def allowed_transitions(labels: Sequence[str], scheme: Scheme | None) -> Transitions:
    """Return which of these tags may start a sentence, end it, and follow one another.

    Args:
        labels: the C tags, each once, in the order of their numbers.
        scheme: the one they are of; None for plain tags such as parts of speech: all is allowed.
    """
    if scheme is None:
        ones = np.ones(len(labels), np.bool_)
        return Transitions(ones, ones.copy(), np.ones((len(labels), len(labels)), np.bool_))
    tags = [_split(label, scheme) for label in labels]
    outside = _Tag(OUTSIDE, "")
    pairs = [[_may_follow(first, then, scheme) for then in tags] for first in tags]
    return Transitions(
        np.array([_may_follow(outside, tag, scheme) for tag in tags], np.bool_),
        np.array([_may_follow(tag, outside, scheme) for tag in tags], np.bool_),
        np.array(pairs, np.bool_).reshape(len(tags), len(tags)),
    )


def _split(tag: str, scheme: Scheme) -> _Tag:
    if tag == OUTSIDE:
        return _Tag(OUTSIDE, "")
    prefix, _, label = tag.partition("-")
    if len(prefix) != 1 or prefix not in _PREFIXES[scheme]:
        expected = ", ".join(f"{allowed}-LABEL" for allowed in _PREFIXES[scheme])
        raise ElmoxError(f"the tag {tag!r} is not one of {scheme}: expected O, {expected}")
    return _Tag(_BIOES.get(prefix, prefix), label)


def _prefixes(span: Span, touches: bool, scheme: Scheme) -> str:
    """Return the prefixes of a span's words; `touches` means a span of that label to its left."""
    rest = span.end_exclusive - span.start - 1
    match scheme:
        case "BIO":
            return "B" + "I" * rest
        case "IOB1":
            return ("B" if touches else "I") + "I" * rest
        case "BIOUL":
            return "B" + "I" * (rest - 1) + "L" if rest else "U"


def _may_follow(first: _Tag, then: _Tag, scheme: Scheme) -> bool:
    """Return whether one tag may follow another; both ends of a sentence count as O."""
    same = first.prefix != OUTSIDE and then.prefix != OUTSIDE and first.label == then.label
    match scheme:
        case "BIO":
            return then.prefix != "I" or same
        case "IOB1":
            return then.prefix != "B" or same
        case "BIOUL":
            is_open, goes_on = first.prefix in ("B", "I"), then.prefix in ("I", "L")
            return is_open == goes_on and (same or not goes_on)
