"""The deep biaffine parser (Dozat & Manning 2017).

Bidirectional LSTMs read the sentence; their output is projected to four vectors per word: as a head
and as a dependent, for arcs and for relations. A bilinear form of a dependent's and a head's vector
scores the arc between them, others each relation that it may have. The root is a head with a
learned vector. The best tree with one word at the root is predicted (`spanning_tree.py`), then the
best relation of each of its arcs.

Shapes: N sentences, T words, R relations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmox.config import Strict
from elmox.io.conllu import TreebankSentence
from elmox.io.settings import PositiveInt, Share
from elmox.io.transfer import to_device
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder, LayerWidths, SharedDropout
from elmox.tasks.nn.padding import padded_labels
from elmox.tasks.parsing.spanning_tree import best_tree

SLOPE = 0.1  # of the leaky ReLUs below zero
ARCS_AT_ONCE = 4096  # whose relations are scored together: each needs R vectors
PADDING = -100  # the label that F.cross_entropy ignores


class Parse(NamedTuple):
    """A tree: for each word the number of its head, counted from 1, and its relation to it.

    The head of one word is the root, 0.
    """

    heads: list[int]
    deprels: list[str]


@dataclass(frozen=True)
class ParserSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        hidden: LSTM cells of each direction, layer by layer.
        arc_dim: width of the vectors that score arcs.
        relation_dim: width of those that score relations.
        dropout: on the output of each layer, one mask for all words of a sentence.
    """

    hidden: LayerWidths = (400, 400, 400)
    arc_dim: PositiveInt = 500
    relation_dim: PositiveInt = 100
    dropout: Share = 0.33


@dataclass(frozen=True)
class ParserConfig(Strict):
    """A parser without its weights."""

    settings: ParserSettings
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Sides:
    """Words as heads, with the root before the first, and as dependents."""

    arc_heads: Tensor  # (N, T+1, arc_dim)
    arc_dependents: Tensor  # (N, T, arc_dim)
    relation_heads: Tensor  # (N, T+1, relation_dim)
    relation_dependents: Tensor  # (N, T, relation_dim)


class Parser(Head[TreebankSentence, Parse]):
    """Bidirectional LSTMs and bilinear forms."""

    def __init__(self, config: ParserConfig, widths: Widths) -> None:
        super().__init__()
        settings, self._relations = config.settings, config.relations
        self._ids = {relation: index for index, relation in enumerate(self._relations)}
        self._dims = [settings.arc_dim, settings.relation_dim]
        self.dropout = SharedDropout(settings.dropout)
        self.encoder = Encoder(widths, settings.hidden, self.dropout)
        width, both = self.encoder.width, settings.arc_dim + settings.relation_dim
        self.root = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.root, std=0.1)
        self.as_heads, self.as_dependents = nn.Linear(width, both), nn.Linear(width, both)
        # A bilinear form is the product of these with a dependent's vector, times a head's. The
        # bias is the part that depends on the head alone; each relation's last number goes with 1.
        self.arcs = nn.Linear(settings.arc_dim, settings.arc_dim)
        self.relations = nn.Linear(
            settings.relation_dim, len(self._relations) * (settings.relation_dim + 1)
        )

    def forward(self, texts: Embedded) -> Sides:
        """Return the vectors of all words."""
        words = self.encoder(texts)
        with_root = torch.cat([self.root.expand(len(words), 1, -1), words], dim=1)
        heads = self.dropout(F.leaky_relu(self.as_heads(with_root), SLOPE))
        dependents = self.dropout(F.leaky_relu(self.as_dependents(words), SLOPE))
        # Split, not sliced: a slice's gradient is as large as the whole.
        (arc_heads, relation_heads), (arc_dependents, relation_dependents) = (
            vectors.split(self._dims, dim=-1) for vectors in (heads, dependents)
        )
        return Sides(arc_heads, arc_dependents, relation_heads, relation_dependents)

    def loss(self, texts: Embedded, examples: Sequence[TreebankSentence]) -> Tensor:
        """Return the mean over words of the cross entropies of head and relation."""
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
        scores = self.relation_scores(sides, heads.clamp(min=0))
        return F.cross_entropy(arcs.flatten(0, 1), heads.flatten()) + F.cross_entropy(
            scores.flatten(0, 1), relations.flatten()
        )

    def predict(self, texts: Embedded, examples: Sequence[TreebankSentence]) -> list[Parse]:
        """Return the best tree of each sentence."""
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
        """Return the score of every head for every word, the root first: (N, T, T+1).

        Padding is scored too.
        """
        scores: Tensor = self.arcs(sides.arc_dependents) @ sides.arc_heads.mT
        return scores

    def relation_scores(self, sides: Sides, heads: Tensor) -> Tensor:
        """Return the score of every relation of each word to its given head: (N, T, R).

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
            products = self.relations(dependents[start : start + ARCS_AT_ONCE])
            forms = products.view(len(products), len(self._relations), -1)  # (arcs, R, dim+1)
            parts.append(forms @ chosen[start : start + ARCS_AT_ONCE, :, None])
        return torch.cat(parts).view(*heads.shape, -1)
