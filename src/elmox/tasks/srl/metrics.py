"""Scores of semantic roles, as srl-eval computes them, the official script of CoNLL-2005.

An argument is right if its span and label are. Labeled F1 is over all arguments except V, the
predicate itself. The pieces of a discontinuous argument, ARG1 and C-ARG1, are one argument, right
only if all its pieces are; a C-ARG1 continues the latest ARG1 before it, and is an ARG1 if there is
none. R-ARG1 is a label like any other.

Predicates are given, as in the shared task: all arguments of a gold predicate without a prediction
are missed, and predictions for a word that is not a gold predicate are ignored.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from elmox.errors import ElmoxError
from elmox.tasks.data.propositions import CONTINUED, PREDICATE, Argument, Proposition
from elmox.tasks.metrics.tally import Tally, add_by_label, tallies_by_label

Span: TypeAlias = tuple[int, int]  # its first word, and the one after its last
JoinedArgument: TypeAlias = tuple[str, tuple[Span, ...]]  # a label and the spans of its pieces


@dataclass(frozen=True)
class RoleScore:
    """Arguments of all labels together (micro-averaged) and of each label; scores add up."""

    overall: Tally = field(default_factory=Tally)
    by_label: Mapping[str, Tally] = field(default_factory=dict)

    def __add__(self, other: "RoleScore") -> "RoleScore":
        by_label = add_by_label(self.by_label, other.by_label)
        return RoleScore(self.overall + other.overall, by_label)


def score_roles(
    gold: Sequence[Iterable[Proposition]], predicted: Sequence[Iterable[Proposition]]
) -> RoleScore:
    """Score sentences, each given by its propositions."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} sentences predicted, expected {len(gold)} as in gold")
    return sum(map(score_sentence, gold, predicted), start=RoleScore())


def score_sentence(gold: Iterable[Proposition], predicted: Iterable[Proposition]) -> RoleScore:
    """Score one sentence; propositions are compared if they have the same predicate."""
    golds, predictions = _by_predicate(gold), _by_predicate(predicted)
    num_correct, num_predicted, num_gold = (Counter[str]() for _ in range(3))
    for predicate, proposition in golds.items():
        arguments = Counter(joined(proposition.args))
        guesses = Counter(joined(predictions[predicate].args) if predicate in predictions else ())
        num_correct.update(label for label, _ in (arguments & guesses).elements())
        num_predicted.update(label for label, _ in guesses.elements())
        num_gold.update(label for label, _ in arguments.elements())
    return RoleScore(*tallies_by_label(num_correct, num_predicted, num_gold))


def joined(args: Iterable[Argument]) -> list[JoinedArgument]:
    """Return the arguments without V, with their pieces joined."""
    arguments: list[tuple[str, list[Span]]] = []
    latest: dict[str, list[Span]] = {}
    for label, start, stop in sorted(args, key=lambda arg: arg.start):
        whole = label.removeprefix(CONTINUED)
        if whole == label or whole not in latest:
            latest[whole] = []
            arguments.append((whole, latest[whole]))
        latest[whole].append((start, stop))
    return [(label, tuple(pieces)) for label, pieces in arguments if label != PREDICATE]


def _by_predicate(propositions: Iterable[Proposition]) -> dict[int, Proposition]:
    by_predicate: dict[int, Proposition] = {}
    for proposition in propositions:
        if proposition.pred in by_predicate:
            raise ElmoxError(
                f"two propositions of word {proposition.pred}, expected one per predicate"
            )
        by_predicate[proposition.pred] = proposition
    return by_predicate
