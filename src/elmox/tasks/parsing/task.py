"""Dependency parsing: the head of each word, and the relation to it.

The deep biaffine parser (Dozat & Manning 2017). Bidirectional LSTMs read the sentence; what they
found is made into four vectors a word: as a head and as a dependent, for arcs and for relations. A
bilinear form of a dependent's and a head's vector scores the arc between them, others each relation
that it may have. The root is a head with a learned vector. Of all trees with one word at the root
the best is taken (`spanning_tree.py`), then for each of its arcs the best relation.

Shapes: N sentences, T words, R relations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmox.config import validated
from elmox.errors import ElmoxError
from elmox.io.conllu import TreebankSentence, read_conllu
from elmox.io.settings import at_least, share
from elmox.io.transfer import to_device
from elmox.tasks.data.questions import Questions, Sentences
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder, SharedDropout
from elmox.tasks.nn.padding import padded_labels
from elmox.tasks.parsing.metrics import score_parses
from elmox.tasks.parsing.spanning_tree import best_tree, has_circle

SLOPE = 0.1  # of the leaky ReLUs below zero
ARCS_AT_ONCE = 4096  # whose relations are scored: each takes R vectors on the way
PADDING = -100  # the label that F.cross_entropy leaves out


class Parse(NamedTuple):
    """A tree: for each word the number of its head, counted from 1, and its relation to it.

    The head of one word is the root, 0.
    """

    heads: list[int]
    deprels: list[str]


@dataclass(frozen=True)
class ParserSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        hidden: cells of each direction, layer by layer.
        arc_dim: width of the vectors that arcs are scored by.
        relation_dim: of those for relations.
        dropout: on what each layer gives; it takes the same places in all words of a sentence.
    """

    hidden: tuple[int, ...] = (400, 400, 400)
    arc_dim: int = 500
    relation_dim: int = 100
    dropout: float = 0.33

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        at_least(1, "the number of layers in head.hidden", len(self.hidden))
        for cells in self.hidden:
            at_least(1, "head.hidden", cells)
        at_least(1, "head.arc_dim", self.arc_dim)
        at_least(1, "head.relation_dim", self.relation_dim)
        share("head.dropout", self.dropout)


@dataclass(frozen=True)
class ParserDescription:
    """A parser, but for its weights."""

    settings: ParserSettings
    relations: tuple[str, ...]

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class Parsing:
    """The task of finding dependencies; a `Task`."""

    def __init__(self, name: str = "parse") -> None:
        self.name = name
        self.metric = "las"
        self.asks: Questions = Sentences()
        self.tokenizer: str | None = None

    def read(self, path: Path) -> list[TreebankSentence]:
        """CoNLL-U, with trees."""
        found = read_conllu(path)
        for own in found:
            if not own.heads or has_circle(np.array(own.heads)):
                wrong = "whose heads go round in a circle" if own.heads else "without heads"
                raise ElmoxError(f"{path}, line {own.line}: a sentence {wrong}, expected a tree")
        return found

    def unlabeled(self, values: Mapping[str, Any]) -> TreebankSentence:
        """A sentence without annotation."""
        return TreebankSentence(tuple(values["tokens"]), (), (), (), (), (), (), (), 0)

    def without_words(self) -> Parse:
        """No heads."""
        return Parse([], [])

    def sentences(self, example: TreebankSentence) -> Sequence[Sentence]:
        """The sentence itself."""
        return (example.words,)

    def describe(
        self, train: Sequence[TreebankSentence], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The relations of the training data, subtypes and all."""
        own = validated(ParserSettings, settings, "the recipe's [head]")
        relations = sorted({relation for example in train for relation in example.deprels})
        return asdict(ParserDescription(own, tuple(relations)))

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A parser with fresh weights."""
        return Parser(validated(ParserDescription, description, "the parser"), widths)

    def score(
        self, examples: Sequence[TreebankSentence], answers: Sequence[Parse]
    ) -> dict[str, float]:
        """LAS and UAS as the CoNLL 2018 shared task reckons them."""
        found = score_parses(examples, answers)
        return {"las": found.las, "uas": found.uas}

    def show(self, example: TreebankSentence, answer: Parse) -> dict[str, Any]:
        """Words, the numbers of their heads, relations."""
        return {"tokens": list(example.words), **answer._asdict()}


@dataclass(frozen=True)
class Sides:
    """Words as heads, the root before the first, and as dependents."""

    arc_heads: Tensor  # (N, T+1, arc_dim)
    arc_dependents: Tensor  # (N, T, arc_dim)
    relation_heads: Tensor  # (N, T+1, relation_dim)
    relation_dependents: Tensor  # (N, T, relation_dim)


class Parser(nn.Module):
    """Bidirectional LSTMs and bilinear forms; a `Head`."""

    def __init__(self, description: ParserDescription, widths: Widths) -> None:
        super().__init__()
        settings, self._relations = description.settings, description.relations
        self._ids = {relation: number for number, relation in enumerate(self._relations)}
        self._dims = [settings.arc_dim, settings.relation_dim]
        self.dropout = SharedDropout(settings.dropout)
        self.encoder = Encoder(widths, settings.hidden, self.dropout)
        width, both = self.encoder.width, settings.arc_dim + settings.relation_dim
        self.root = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.root, std=0.1)
        self.as_heads, self.as_dependents = nn.Linear(width, both), nn.Linear(width, both)
        # A bilinear form is what these make of a dependent's vector, times a head's. The bias is
        # the part that looks at heads alone; the last number of each relation goes with a 1.
        self.arcs = nn.Linear(settings.arc_dim, settings.arc_dim)
        self.relations = nn.Linear(
            settings.relation_dim, len(self._relations) * (settings.relation_dim + 1)
        )

    def forward(self, texts: Embedded) -> Sides:
        """The vectors of all words."""
        found = self.encoder(texts)
        with_root = torch.cat([self.root.expand(len(found), 1, -1), found], dim=1)
        heads = self.dropout(F.leaky_relu(self.as_heads(with_root), SLOPE))
        dependents = self.dropout(F.leaky_relu(self.as_dependents(found), SLOPE))
        # Not sliced: a slice's gradient is made as large as all of it.
        (arc_heads, relation_heads), (arc_dependents, relation_dependents) = (
            own.split(self._dims, dim=-1) for own in (heads, dependents)
        )
        return Sides(arc_heads, arc_dependents, relation_heads, relation_dependents)

    def loss(self, texts: Embedded, examples: Sequence[TreebankSentence]) -> Tensor:
        """The mean over words of their heads' and their relations' cross-entropy."""
        ids = ([self._ids[relation] for relation in example.deprels] for example in examples)
        labels = [
            padded_labels(rows, texts.mask.shape, PADDING)
            for rows in ((example.heads for example in examples), ids)
        ]
        heads, relations = to_device(np.stack(labels), texts.mask.device)
        sides = self(texts)
        arcs = self.arc_scores(sides)
        arcs[..., 1:].masked_fill_(~texts.mask.unsqueeze(1), -torch.inf)
        arcs.diagonal(1, 1, 2).fill_(-torch.inf)  # no word is its own head
        found = self.relation_scores(sides, heads.clamp(min=0))
        return F.cross_entropy(arcs.flatten(0, 1), heads.flatten()) + F.cross_entropy(
            found.flatten(0, 1), relations.flatten()
        )

    def answers(self, texts: Embedded, examples: Sequence[TreebankSentence]) -> list[Parse]:
        """The best tree of each sentence."""
        sides = self(texts)
        lengths = texts.lengths.tolist()
        scores = self.arc_scores(sides).float().cpu().numpy()
        heads = torch.zeros(texts.mask.shape, dtype=torch.int64)
        for row, length in enumerate(lengths):
            tree = best_tree(scores[row, :length, : length + 1])
            heads[row, :length] = torch.from_numpy(tree)
        relations = self.relation_scores(sides, heads.to(texts.mask.device)).argmax(-1)
        return [
            Parse(tree[:length], [self._relations[i] for i in ids[:length]])
            for tree, ids, length in zip(heads.tolist(), relations.tolist(), lengths, strict=True)
        ]

    def arc_scores(self, sides: Sides) -> Tensor:
        """Of every head for every word, the root first: (N, T, T+1). Padding is among them."""
        scores: Tensor = self.arcs(sides.arc_dependents) @ sides.arc_heads.mT
        return scores

    def relation_scores(self, sides: Sides, heads: Tensor) -> Tensor:
        """Of every relation of each word to its head alone: (N, T, R).

        Args:
            sides: the words' vectors.
            heads: (N, T) numbers of heads; any at padding.
        """
        dependents = sides.relation_dependents
        chosen = sides.relation_heads.gather(1, heads.unsqueeze(2).expand_as(dependents))
        chosen = F.pad(chosen, (0, 1), value=1.0).flatten(0, 1)
        dependents = dependents.flatten(0, 1)
        parts = []
        for start in range(0, len(chosen), ARCS_AT_ONCE):
            own = self.relations(dependents[start : start + ARCS_AT_ONCE])
            forms = own.view(len(own), len(self._relations), -1)  # (arcs, R, relation_dim+1)
            parts.append(forms @ chosen[start : start + ARCS_AT_ONCE, :, None])
        return torch.cat(parts).view(*heads.shape, -1)
