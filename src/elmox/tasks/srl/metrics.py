"""Semantic roles as srl-eval counts them, the official script of CoNLL-2005.

An argument is right if its span and label are. Labeled F1 is taken over all arguments but V, the
predicate itself. The pieces of a discontinuous argument, ARG1 and C-ARG1, are one argument, right
only if all its pieces are; a C-ARG1 continues the latest ARG1 before it, and is an ARG1 if there is
none. R-ARG1 is a label like any other.

Predicates are given, as in the shared task: a gold predicate without a prediction has all its
arguments missed, and what is predicted for a word that is no gold predicate is passed over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from elmox.errors import ElmoxError
from elmox.tasks.data.propositions import CONTINUED, PREDICATE, Argument, Proposition
from elmox.tasks.metrics.tally import Tally

# A label and the spans of its pieces, each from its first word up to, but without, its stop.
JoinedArgument = tuple[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class RoleScore:
    """Arguments of all labels together (micro-averaged) and of each label; scores add up."""

    overall: Tally = field(default_factory=Tally)
    by_label: Mapping[str, Tally] = field(default_factory=dict)

    def __add__(self, other: "RoleScore") -> "RoleScore":
        labels = sorted({*self.by_label, *other.by_label})
        none = Tally()
        return RoleScore(
            self.overall + other.overall,
            {
                label: self.by_label.get(label, none) + other.by_label.get(label, none)
                for label in labels
            },
        )


def score_roles(
    gold: Sequence[Iterable[Proposition]], predicted: Sequence[Iterable[Proposition]]
) -> RoleScore:
    """The score over sentences, each given by its propositions."""
    if len(gold) != len(predicted):
        raise ElmoxError(f"{len(predicted)} sentences predicted, expected {len(gold)} as in gold")
    return sum(map(score_sentence, gold, predicted), start=RoleScore())


def score_sentence(gold: Iterable[Proposition], predicted: Iterable[Proposition]) -> RoleScore:
    """The score of one sentence. Propositions belong together if their predicates are one word."""
    golds, predictions = _by_predicate(gold), _by_predicate(predicted)
    num_right, num_predicted, num_gold = (Counter[str]() for _ in range(3))
    for pred, own in golds.items():
        wanted = Counter(joined(own.args))
        said = Counter(joined(predictions[pred].args) if pred in predictions else ())
        num_right.update(label for label, _ in (wanted & said).elements())
        num_predicted.update(label for label, _ in said.elements())
        num_gold.update(label for label, _ in wanted.elements())
    return RoleScore(
        Tally.of(num_right.total(), num_predicted.total(), num_gold.total()),
        {
            label: Tally.of(num_right[label], num_predicted[label], num_gold[label])
            for label in sorted({*num_predicted, *num_gold})
        },
    )


def joined(args: Iterable[Argument]) -> list[JoinedArgument]:
    """The arguments without V, with their pieces put together."""
    found: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for label, start, stop in sorted(args, key=lambda arg: arg.start):
        whole = label.removeprefix(CONTINUED)
        if whole == label or whole not in latest:
            latest[whole] = []
            found.append((whole, latest[whole]))
        latest[whole].append((start, stop))
    return [(label, tuple(pieces)) for label, pieces in found if label != PREDICATE]


def _by_predicate(propositions: Iterable[Proposition]) -> dict[int, Proposition]:
    found: dict[int, Proposition] = {}
    for own in propositions:
        if own.pred in found:
            raise ElmoxError(f"two propositions of word {own.pred}, expected one for a predicate")
        found[own.pred] = own
    return found
