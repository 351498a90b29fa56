"""Semantic role labeling: who did what to whom, for predicates that are given.

The paper's model (its supplement; He et al. 2017): eight highway LSTM layers in alternating
directions, which read the words and a flag at the predicate; a softmax over roles in BIO for each
word; and Viterbi's search for the likeliest tags that spell spans. Of the predicate its word is
given, and no more: V begins there, and nowhere else.

An example is a sentence with all its predicates. It is embedded once, and the first layer's product
with its words is taken once; from there on each predicate has a row of its own.

Shapes: N sentences, T words of the longest, R rows, P words of them all (see `Packing`), C tags:
O, then B- and then I- of the L labels, V first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.settings import at_least, share
from elmox.io.transfer import to_device
from elmox.kernels.recurrence.packing import PackedRows, Packing
from elmox.tasks.data.conll2012 import read_conll2012
from elmox.tasks.data.propositions import CONTINUED, PREDICATE, Argument, Proposition, RoleSentence
from elmox.tasks.data.questions import MarkedSentences, Questions
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.highway_lstm import HighwayLstm
from elmox.tasks.srl.metrics import score_roles
from elmox.tasks.srl.propbank import read_propbank

Roles = tuple[Argument, ...]  # a predicate's arguments, V not among them

MOST_WORDS = 2**14  # of rows that are answered together: a bound on memory

_BEGIN_V = 1


@dataclass(frozen=True)
class RoleSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        layers: of LSTMs; the first reads from left to right, the second from right to left.
        hidden: cells of each.
        flag_dim: width of the vector that tells the predicate from other words.
        dropout: on what each layer gives, one mask for all words of a row.
    """

    layers: int = 8
    hidden: int = 300
    flag_dim: int = 100
    dropout: float = 0.1

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "flag_dim"):
            at_least(1, f"head.{name}", getattr(self, name))
        share("head.dropout", self.dropout)


@dataclass(frozen=True)
class RoleDescription:
    """A labeler, but for its weights."""

    settings: RoleSettings
    labels: tuple[str, ...]  # without V

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class SemanticRoles:
    """The task; a `Task`."""

    name = "srl"
    metric = "f1"
    asks: Questions = MarkedSentences("predicates")
    tokenizer: str | None = None

    def read(self, path: Path) -> list[RoleSentence]:
        """PropBank as JSON lines, or CoNLL-2012; sentences without predicates are left out."""
        sentences = read_propbank(path) if ".json" in path.name else _from_conll2012(path)
        examples = [own for own in sentences if own.propositions]
        if not examples:
            raise ElmoxError(f"{path} has no predicates: expected semantic roles of sentences")
        for own in examples:
            if len({prop.pred for prop in own.propositions}) < len(own.propositions):
                raise ElmoxError(f"{path}, sentence {own.id}: two propositions of one predicate")
        return examples

    def unlabeled(self, values: Mapping[str, Any]) -> RoleSentence:
        """A sentence with `predicates`, the places of its predicates, counted from 0."""
        words, given = tuple(values["tokens"]), values.get("predicates")
        if given is None:
            raise ElmoxError("srl asks for predicates too: a list of their places, counted from 0")
        known = isinstance(given, list | tuple) and all(
            type(place) is int and 0 <= place < len(words) for place in given
        )
        if not known or len(set(given)) < len(given):
            places = f"a list of places from 0 to {len(words) - 1}, each once"
            expected = places if words else "an empty list for a sentence without words"
            raise ElmoxError(f"predicates is {given!r:.60}, expected {expected}")
        return RoleSentence("", words, (), tuple(Proposition(p, "", "", ()) for p in given))

    def without_words(self) -> list[Roles]:
        """No predicates."""
        return []

    def sentences(self, example: RoleSentence) -> Sequence[Sentence]:
        """The sentence itself, once for all its predicates."""
        return (example.words,)

    def describe(
        self, train: Sequence[RoleSentence], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The labels of the training data."""
        own = validated(RoleSettings, settings, "the recipe's [head]")
        propositions = (prop for example in train for prop in example.propositions)
        labels = {arg.label for prop in propositions for arg in prop.args} - {PREDICATE}
        return asdict(RoleDescription(own, tuple(sorted(labels))))

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A labeler with fresh weights."""
        return RoleLabeler(validated(RoleDescription, description, "the labeler"), widths)

    def score(
        self, examples: Sequence[RoleSentence], answers: Sequence[Sequence[Roles]]
    ) -> dict[str, float]:
        """Precision, recall and F1 of arguments, as the official script counts them."""
        predicted = [_answered(*both) for both in zip(examples, answers, strict=True)]
        found = score_roles([own.propositions for own in examples], predicted).overall
        return {"f1": found.f1, "precision": found.precision, "recall": found.recall}

    def show(self, example: RoleSentence, answer: Sequence[Roles]) -> dict[str, Any]:
        """Words, and the arguments of each predicate."""
        propositions = [
            {
                "predicate": own.pred,
                "arguments": [
                    {"start": a.start, "end": a.stop, "label": a.label} for a in own.args
                ],
            }
            for own in _answered(example, answer)
        ]
        return {"tokens": list(example.words), "propositions": propositions}


class _Asked(NamedTuple):
    """A predicate of one of a batch's sentences."""

    length: int  # of the sentence
    sentence: int
    number: int  # among the sentence's propositions
    predicate: int  # the word


@dataclass(frozen=True)
class _Rows:
    """Predicates side by side, each with a copy of its sentence's words."""

    asked: Sequence[_Asked]
    packing: Packing
    packed: PackedRows
    words: Tensor  # (P,) the place of each word among all N * T
    flags: Tensor  # (P,) 1 for the predicate

    @classmethod
    def of(cls, asked: Sequence[_Asked], mask: Tensor) -> "_Rows":
        """For sentences with this mask (N, T), and where that is; the longest first."""
        lengths, sentences, _, predicates = np.array(asked, np.int64).T
        packing = Packing.of(lengths)
        words = sentences[packing.rows] * mask.shape[1] + packing.steps
        flags = (predicates[packing.rows] == packing.steps).astype(np.int64)
        places = (to_device(own, mask.device) for own in (words, flags))
        return cls(asked, packing, packing.on(mask.device), *places)


class RoleLabeler(nn.Module):
    """Highway LSTMs in alternating directions, a softmax for each word; a `Head`."""

    def __init__(self, description: RoleDescription, widths: Widths) -> None:
        super().__init__()
        settings = description.settings
        self._labels = (PREDICATE, *description.labels)
        self._numbers = {label: number for number, label in enumerate(self._labels)}
        if widths.middle and settings.layers < 2:
            raise ElmoxError('elmo.place is "middle": give head.layers 2 or more')
        cells, dropout = settings.hidden, settings.dropout
        self.flags = nn.Embedding(2, settings.flag_dim)
        nn.init.normal_(self.flags.weight, std=0.1)
        self.first = HighwayLstm(widths.input + settings.flag_dim, cells, dropout, backward=False)
        inputs = [cells + widths.middle, *[cells] * settings.layers][: settings.layers - 1]
        self.others = nn.ModuleList(
            HighwayLstm(width, cells, dropout, backward=number % 2 == 1)
            for number, width in enumerate(inputs, start=1)
        )
        self.scores = nn.Linear(cells + widths.output, 1 + 2 * len(self._labels))

    def forward(self, texts: Embedded, rows: _Rows) -> Tensor:
        """A score for every word and tag, (P, C)."""
        # W [x; flag] = W_x x + W_flag flag: words are multiplied before they are repeated.
        products = _repeated(self.first.products(texts.input), rows.words)
        flags = F.linear(self.flags.weight, self.first.weight[:, texts.input.shape[-1] :])
        found = self.first.read(products + F.embedding(rows.flags, flags), rows.packed)
        if texts.middle is not None:
            found = torch.cat([found, _repeated(texts.middle, rows.words)], dim=-1)
        for layer in self.others:
            found = layer(found, rows.packed)
        if texts.output is not None:
            found = torch.cat([found, _repeated(texts.output, rows.words)], dim=-1)
        scores: Tensor = self.scores(found)
        return scores

    def loss(self, texts: Embedded, examples: Sequence[RoleSentence]) -> Tensor:
        """The mean negative log-likelihood of a word's tag."""
        asked = _asked(examples)
        if not asked:
            return self.scores.bias.sum() * 0
        rows = _Rows.of(asked, texts.mask)
        tags = np.zeros((len(asked), asked[0].length), np.int64)
        for row, own in enumerate(asked):
            for label, start, stop in examples[own.sentence].propositions[own.number].args:
                begin = 1 + self._numbers[label]
                tags[row, start] = begin
                tags[row, start + 1 : stop] = begin + len(self._labels)
        right = to_device(tags[rows.packing.rows, rows.packing.steps], texts.mask.device)
        return F.cross_entropy(self(texts, rows), right)

    def answers(self, texts: Embedded, examples: Sequence[RoleSentence]) -> list[list[Roles]]:
        """The likeliest arguments of each predicate."""
        found: list[list[Roles]] = [[()] * len(own.propositions) for own in examples]
        asked = _asked(examples)
        while asked:
            count = max(1, MOST_WORDS // asked[0].length)
            rows = _Rows.of(asked[:count], texts.mask)
            tags = np.zeros((len(rows.asked), asked[0].length), np.int64)
            best = best_tags(self(texts, rows), rows.flags, rows.packing.sizes)
            tags[rows.packing.rows, rows.packing.steps] = best.cpu().numpy()
            for own, row in zip(rows.asked, tags, strict=True):
                found[own.sentence][own.number] = self._roles(row[: own.length].tolist())
            asked = asked[count:]
        return found

    def _roles(self, tags: Sequence[int]) -> Roles:
        """The spans that tags spell, but for those of the predicate."""
        found: list[Argument] = []
        for place, tag in enumerate(tags):
            if tag > len(self._labels):
                found[-1] = found[-1]._replace(stop=place + 1)
            elif tag:
                found.append(Argument(self._labels[tag - 1], place, place + 1))
        return tuple(arg for arg in found if arg.label.removeprefix(CONTINUED) != PREDICATE)


def best_tags(scores: Tensor, flags: Tensor, sizes: Sequence[int]) -> Tensor:
    """The best tags that spell spans: (P,).

    I- comes after B- or I- of its own label only, everything else after anything; so two candidates
    for the tag before are enough. B-V is the tag of the predicate's word, and of no other.

    Args:
        scores: (P, C).
        flags: (P,) 1 for the predicate.
        sizes: as `Packing` has them.
    """
    num_labels = scores.shape[1] // 2
    tags = torch.arange(scores.shape[1], device=scores.device)
    scores = scores.masked_fill((tags == _BEGIN_V) != flags[:, None].bool(), float("-inf"))
    first, *rest = torch.split(scores, list(sizes))
    best = first.masked_fill(tags > num_labels, float("-inf"))  # (R, C), of tags up to here
    origins = []  # (N, C) for each step but the first: the tag before
    for own in rest:
        now = best[: len(own)]
        begun, inside = now[:, 1 : 1 + num_labels], now[:, 1 + num_labels :]
        top, top_tag = (x.expand(-1, 1 + num_labels) for x in now.max(dim=1, keepdim=True))
        open_tag = torch.where(inside > begun, tags[1 + num_labels :], tags[1 : 1 + num_labels])
        origins.append(torch.cat([top_tag, open_tag], dim=1))
        best[: len(own)] = own + torch.cat([top, torch.maximum(begun, inside)], dim=1)
    last = best.argmax(dim=1)
    found = []
    for size, origin in zip(sizes[:0:-1], reversed(origins), strict=True):
        found.append(last[:size].clone())
        last[:size] = origin.gather(1, last[:size, None]).squeeze(1)
    return torch.cat([last, *reversed(found)])


def _repeated(vectors: Tensor, words: Tensor) -> Tensor:
    """(N, T, D) -> (P, D). A table's gradient is much faster than an index's."""
    return F.embedding(words, vectors.flatten(0, 1))


def _asked(examples: Sequence[RoleSentence]) -> list[_Asked]:
    """All predicates of a batch, by falling length of their sentences."""
    asked = [
        _Asked(len(own.words), sentence, number, prop.pred)
        for sentence, own in enumerate(examples)
        for number, prop in enumerate(own.propositions)
    ]
    return sorted(asked, key=lambda own: -own.length)


def _answered(example: RoleSentence, answer: Sequence[Roles]) -> list[Proposition]:
    """The propositions with the arguments that were answered."""
    both = zip(example.propositions, answer, strict=True)
    return [replace(own, args=tuple(roles)) for own, roles in both]


def _from_conll2012(path: Path) -> Iterator[RoleSentence]:
    for document in read_conll2012(path):
        name = f"{document.name}, part {document.part}"
        for number, own in enumerate(document.sentences):
            yield RoleSentence(f"{name}, {number}", own.words, own.xpos, own.propositions)
