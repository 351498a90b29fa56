"""Who did what to whom: a predicate with its arguments, as PropBank annotates them.

    [ARG0 He] [ARGM-NEG never] [V gave] [ARG1 it] [ARGM-DIS up] ...

Labels are PropBank's: ARG0 to ARG5, ARGM-TMP and the like, V for the predicate itself, R-ARG0 for
a reference to an argument ("who"), C-ARG1 for a further piece of an argument in several pieces.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from elmox.errors import ElmoxError

PREDICATE = "V"
CONTINUED = "C-"


class Argument(NamedTuple):
    """A labeled span of a sentence: its first word's place and the place after its last word."""

    label: str
    start: int
    stop: int


@dataclass(frozen=True)
class Proposition:
    """A predicate and its arguments.

    Attributes:
        pred: the predicate's place in the sentence. It lies in the V span or, for the few
            predicates in several pieces ("flip - flopped"), in the C-V span.
        lemma: of the predicate.
        frame: its sense, such as `give_up.08`.
        args: all labeled spans, V among them, by their starts; no two overlap.
    """

    pred: int
    lemma: str
    frame: str
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class RoleSentence:
    """A sentence and what is said in it.

    Attributes:
        id: as the corpus names it.
        words: the tokens.
        xpos: their part-of-speech tags.
        propositions: in the order of the corpus.
    """

    id: str
    words: tuple[str, ...]
    xpos: tuple[str, ...]
    propositions: tuple[Proposition, ...]


def checked_proposition(
    pred: int, lemma: str, frame: str, args: Iterable[Argument], num_words: int
) -> Proposition:
    """A proposition of a sentence of so many words, once it has been found to be right.

    Raises:
        ElmoxError: a span is outside the sentence, spans overlap, or V does not hold the predicate.
    """
    if not 0 <= pred < num_words:
        raise ElmoxError(f"the predicate is word {pred}, but the sentence has {num_words} words")
    ordered = tuple(sorted(args, key=lambda arg: arg.start))
    for arg in ordered:
        if not 0 <= arg.start < arg.stop <= num_words:
            raise ElmoxError(f"{_span(arg)} is not in the sentence, which has {num_words} words")
    for one, other in pairwise(ordered):
        if one.stop > other.start:
            raise ElmoxError(f"{_span(one)} and {_span(other)} overlap, expected spans apart")
    if sum(arg.label == PREDICATE for arg in ordered) != 1:
        raise ElmoxError(f"the predicate at word {pred} has {_labels(ordered)}, expected one V")
    holding = (PREDICATE, CONTINUED + PREDICATE)
    if not any(arg.label in holding and arg.start <= pred < arg.stop for arg in ordered):
        raise ElmoxError(f"no V or C-V holds the predicate, word {pred}: {_labels(ordered)}")
    return Proposition(pred, lemma, frame, ordered)


def _span(arg: Argument) -> str:
    return f"{arg.label} (words {arg.start} to {arg.stop - 1})"


def _labels(args: Iterable[Argument]) -> str:
    return ", ".join(map(_span, args)) or "no arguments"
