"""Semantic role labeling: who did what to whom, for given predicates.

An example is a sentence with all its predicates.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError
from elmox.tasks.base import LabeledSpan, Offsets, Task, TaskOutput
from elmox.tasks.data.conll2012 import read_conll2012
from elmox.tasks.data.input_formats import MarkedSentenceInput
from elmox.tasks.data.propositions import PREDICATE, Proposition, RoleSentence
from elmox.tasks.data.texts import Sentence
from elmox.tasks.srl.metrics import score_roles
from elmox.tasks.srl.network import RoleConfig, RoleLabeler, Roles, RoleSettings
from elmox.tasks.srl.propbank import read_propbank


@dataclass(frozen=True)
class PredicateRoles:
    """The roles of one predicate: the index of its word, and its arguments."""

    predicate: int
    arguments: tuple[LabeledSpan, ...]


@dataclass(frozen=True)
class RolesOutput(TaskOutput):
    """A sentence with the arguments of its predicates.

    Attributes:
        tokens: its words.
        propositions: one per predicate, in the order of the input.
        offsets: first character of each token and the one after its last; None if the input was
            tokens.
    """

    tokens: tuple[str, ...]
    propositions: tuple[PredicateRoles, ...]
    offsets: Offsets | None = None


class SemanticRoles(Task[RoleSentence, Sequence[Roles]]):
    """The arguments of each predicate of a sentence."""

    input_format = MarkedSentenceInput("predicates")
    settings_type = RoleSettings
    config_type = RoleConfig
    head_type = RoleLabeler

    def read(self, path: Path, settings: Any = None) -> list[RoleSentence]:
        """Read PropBank as JSON lines, or CoNLL-2012; sentences without predicates are skipped."""
        sentences = read_propbank(path) if ".json" in path.name else _from_conll2012(path)
        examples = [sentence for sentence in sentences if sentence.propositions]
        if not examples:
            raise ElmoxError(f"{path} has no predicates: expected semantic roles of sentences")
        for example in examples:
            if len({prop.pred for prop in example.propositions}) < len(example.propositions):
                raise ElmoxError(
                    f"{path}, sentence {example.id}: two propositions of one predicate"
                )
        return examples

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> RoleSentence:
        """Return a sentence with `predicates`, the indices of its predicates."""
        words, indices = tuple(values["tokens"]), values.get("predicates")
        if indices is None:
            raise ElmoxError("srl requires predicates too: a list of their indices, from 0 on")
        valid = isinstance(indices, list | tuple) and all(
            type(index) is int and 0 <= index < len(words) for index in indices
        )
        if not valid or len(set(indices)) < len(indices):
            expected = "an empty list for a sentence without words"
            if words:
                expected = f"a list of indices from 0 to {len(words) - 1}, each once"
            raise ElmoxError(f"predicates is {indices!r:.60}, expected {expected}")
        return RoleSentence("", words, (), tuple(Proposition(i, "", "", ()) for i in indices))

    def empty_prediction(self) -> list[Roles]:
        """Return no predicates."""
        return []

    def sentences(self, example: RoleSentence) -> Sequence[Sentence]:
        """Return the sentence itself, once for all its predicates."""
        return (example.words,)

    def configure(self, train: Sequence[RoleSentence], settings: RoleSettings) -> RoleConfig:
        """Collect the labels of the training data."""
        propositions = (prop for example in train for prop in example.propositions)
        labels = {arg.label for prop in propositions for arg in prop.args} - {PREDICATE}
        return RoleConfig(settings, tuple(sorted(labels)))

    def score(
        self, examples: Sequence[RoleSentence], predictions: Sequence[Sequence[Roles]]
    ) -> dict[str, float]:
        """Return precision, recall and F1 of arguments, as the official script counts them."""
        predicted = [_predicted(*both) for both in zip(examples, predictions, strict=True)]
        overall = score_roles([example.propositions for example in examples], predicted).overall
        return {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}

    def format_prediction(
        self, example: RoleSentence, prediction: Sequence[Roles], offsets: Mapping[str, Any]
    ) -> RolesOutput:
        """Return the words and the arguments of each predicate."""
        token_offsets = offsets.get("tokens")
        propositions = (
            PredicateRoles(
                proposition.pred,
                tuple(
                    LabeledSpan.at(arg.start, arg.stop, arg.label, token_offsets)
                    for arg in proposition.args
                ),
            )
            for proposition in _predicted(example, prediction)
        )
        return RolesOutput(example.words, tuple(propositions), token_offsets)


def _predicted(example: RoleSentence, prediction: Sequence[Roles]) -> list[Proposition]:
    """Return the propositions with the predicted arguments."""
    both = zip(example.propositions, prediction, strict=True)
    return [replace(proposition, args=tuple(roles)) for proposition, roles in both]


def _from_conll2012(path: Path) -> Iterator[RoleSentence]:
    for document in read_conll2012(path):
        name = f"{document.name}, part {document.part}"
        for number, sentence in enumerate(document.sentences):
            yield RoleSentence(
                f"{name}, {number}", sentence.words, sentence.xpos, sentence.propositions
            )
