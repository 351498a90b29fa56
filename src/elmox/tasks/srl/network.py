"""The paper's network for semantic roles (its supplement; He et al. 2017).

Highway LSTM layers in alternating directions read the words and a flag at the predicate; a softmax
over roles in BIO scores the tags of each word, and a Viterbi search finds the most likely tags that
form spans. Only the position of the predicate is given: V begins there, and nowhere else.

A sentence is embedded once, and the first layer's product with its words is computed once; from
there on each of its predicates has its own row.

Shapes: N sentences, T words of the longest, R rows, P words of all rows (see `Packing`), C tags:
O, then B- and then I- of the L labels, V first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmox.config import Strict
from elmox.errors import ElmoxError
from elmox.io.settings import PositiveInt, Share
from elmox.io.transfer import to_device
from elmox.kernels.recurrence.packing import PackedRows, Packing
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.data.propositions import CONTINUED, PREDICATE, Argument, RoleSentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.highway_lstm import HighwayLstm

Roles: TypeAlias = tuple[Argument, ...]  # a predicate's arguments without V

MAX_WORDS = 2**14  # of the rows that are predicted together: a bound on memory

_BEGIN_V = 1


@dataclass(frozen=True)
class RoleSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        layers: number of LSTM layers; the first reads from left to right, the second from right to
            left.
        hidden: cells of each layer.
        flag_dim: width of the vector that marks the predicate.
        dropout: on the output of each layer, one mask for all words of a row.
    """

    layers: PositiveInt = 8
    hidden: PositiveInt = 300
    flag_dim: PositiveInt = 100
    dropout: Share = 0.1


@dataclass(frozen=True)
class RoleConfig(Strict):
    """A labeler without its weights."""

    settings: RoleSettings
    labels: tuple[str, ...]  # without V


class _Predicate(NamedTuple):
    """A predicate of a sentence in a batch."""

    length: int  # words of the sentence
    sentence: int  # index in the batch
    number: int  # index among the sentence's propositions
    position: int  # index of its word


@dataclass(frozen=True)
class _Rows:
    """Predicates side by side, each with a copy of its sentence's words."""

    predicates: Sequence[_Predicate]
    packing: Packing
    packed: PackedRows
    words: Tensor  # (P,) index of each word among all N * T
    flags: Tensor  # (P,) 1 for the predicate

    @classmethod
    def of(cls, predicates: Sequence[_Predicate], mask: Tensor) -> "_Rows":
        """Return the rows of sentences with this mask (N, T), on its device; the longest first."""
        lengths, sentences, _, positions = np.array(predicates, np.int64).T
        packing = Packing.of(lengths)
        words = sentences[packing.rows] * mask.shape[1] + packing.steps
        flags = (positions[packing.rows] == packing.steps).astype(np.int64)
        indices = (to_device(array, mask.device) for array in (words, flags))
        return cls(predicates, packing, packing.on(mask.device), *indices)


class RoleLabeler(Head[RoleSentence, list[Roles]]):
    """Highway LSTMs in alternating directions and a softmax for each word."""

    def __init__(self, config: RoleConfig, widths: Widths) -> None:
        super().__init__()
        settings = config.settings
        self._labels = (PREDICATE, *config.labels)
        self._ids = {label: index for index, label in enumerate(self._labels)}
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
        """Return a score for every word and tag, (P, C)."""
        # W [x; flag] = W_x x + W_flag flag: words are multiplied before they are repeated.
        products = _repeated(self.first.products(texts.input), rows.words)
        flags = F.linear(self.flags.weight, self.first.weight[:, texts.input.shape[-1] :])
        hidden = self.first.read(products + F.embedding(rows.flags, flags), rows.packed)
        if texts.middle is not None:
            hidden = torch.cat([hidden, _repeated(texts.middle, rows.words)], dim=-1)
        for layer in self.others:
            hidden = layer(hidden, rows.packed)
        if texts.output is not None:
            hidden = torch.cat([hidden, _repeated(texts.output, rows.words)], dim=-1)
        scores: Tensor = self.scores(hidden)
        return scores

    def loss(self, texts: Embedded, examples: Sequence[RoleSentence]) -> Tensor:
        """Return the mean over words of the tags' negative log-likelihood."""
        predicates = _predicates(examples)
        if not predicates:
            return self.scores.bias.sum() * 0
        rows = _Rows.of(predicates, texts.mask)
        tags = np.zeros((len(predicates), predicates[0].length), np.int64)
        for row, predicate in enumerate(predicates):
            proposition = examples[predicate.sentence].propositions[predicate.number]
            for label, start, stop in proposition.args:
                begin = 1 + self._ids[label]
                tags[row, start] = begin
                tags[row, start + 1 : stop] = begin + len(self._labels)
        gold = to_device(tags[rows.packing.rows, rows.packing.steps], texts.mask.device)
        return F.cross_entropy(self(texts, rows), gold)

    def predict(self, texts: Embedded, examples: Sequence[RoleSentence]) -> list[list[Roles]]:
        """Return the most likely arguments of each predicate."""
        roles: list[list[Roles]] = [[()] * len(example.propositions) for example in examples]
        predicates = _predicates(examples)
        while predicates:
            count = max(1, MAX_WORDS // predicates[0].length)
            rows = _Rows.of(predicates[:count], texts.mask)
            tags = np.zeros((len(rows.predicates), predicates[0].length), np.int64)
            best = best_tags(self(texts, rows), rows.flags, rows.packing.sizes)
            tags[rows.packing.rows, rows.packing.steps] = best.cpu().numpy()
            for predicate, row in zip(rows.predicates, tags, strict=True):
                spans = self._spans(row[: predicate.length].tolist())
                roles[predicate.sentence][predicate.number] = spans
            predicates = predicates[count:]
        return roles

    def _spans(self, tags: Sequence[int]) -> Roles:
        """Return the spans that tags form, except those of the predicate."""
        spans: list[Argument] = []
        for position, tag in enumerate(tags):
            if tag > len(self._labels):
                spans[-1] = spans[-1]._replace(stop=position + 1)
            elif tag:
                spans.append(Argument(self._labels[tag - 1], position, position + 1))
        return tuple(span for span in spans if span.label.removeprefix(CONTINUED) != PREDICATE)


def best_tags(scores: Tensor, flags: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the best tags that form spans: (P,).

    I- follows only B- or I- of its own label, everything else follows anything; so two candidates
    for the previous tag are enough. B-V is the tag of the predicate's word, and of no other.

    Args:
        scores: (P, C).
        flags: (P,) 1 for the predicate.
        sizes: as in `Packing`.
    """
    num_labels = scores.shape[1] // 2
    tags = torch.arange(scores.shape[1], device=scores.device)
    scores = scores.masked_fill((tags == _BEGIN_V) != flags[:, None].bool(), float("-inf"))
    first, *rest = torch.split(scores, list(sizes))
    best = first.masked_fill(tags > num_labels, float("-inf"))  # (R, C), of tags up to here
    origins = []  # (N, C) for each step except the first: the previous tag
    for step in rest:
        now = best[: len(step)]
        begun, inside = now[:, 1 : 1 + num_labels], now[:, 1 + num_labels :]
        top, top_tag = (x.expand(-1, 1 + num_labels) for x in now.max(dim=1, keepdim=True))
        open_tag = torch.where(inside > begun, tags[1 + num_labels :], tags[1 : 1 + num_labels])
        origins.append(torch.cat([top_tag, open_tag], dim=1))
        best[: len(step)] = step + torch.cat([top, torch.maximum(begun, inside)], dim=1)
    last = best.argmax(dim=1)
    path = []
    for size, origin in zip(sizes[:0:-1], reversed(origins), strict=True):
        path.append(last[:size].clone())
        last[:size] = origin.gather(1, last[:size, None]).squeeze(1)
    return torch.cat([last, *reversed(path)])


def _repeated(vectors: Tensor, words: Tensor) -> Tensor:
    """(N, T, D) -> (P, D). The gradient of an embedding is much faster than that of an index."""
    return F.embedding(words, vectors.flatten(0, 1))


def _predicates(examples: Sequence[RoleSentence]) -> list[_Predicate]:
    """Return all predicates of a batch, those of the longest sentences first."""
    predicates = [
        _Predicate(len(example.words), sentence, number, proposition.pred)
        for sentence, example in enumerate(examples)
        for number, proposition in enumerate(example.propositions)
    ]
    return sorted(predicates, key=lambda predicate: -predicate.length)
