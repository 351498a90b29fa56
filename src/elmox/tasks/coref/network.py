"""End-to-end span ranking (Lee et al. 2017), the paper's network for coreference.

A bidirectional LSTM reads each sentence, all spans up to some width are scored as mentions, the
best are kept (`mentions.py`), and each of them is linked to the most likely one before it, or to
none (`antecedents.py`). Linked mentions are an entity. It learns from entities alone: the loss is
the negative log-likelihood of all gold antecedents of a mention together. A mention without a link
is not predicted, so that no predicted entity has a single mention.

ELMo joins the LSTM's input, and with it attention's mean of a span's words; and its output.

Two things differ from the paper. In training, the mentions of entities are kept, whatever their
score and however many they are, except those that cross another: from few documents it would
otherwise take long to learn them, because spans that are not kept have no gradient. And the genre
is not a feature; the speaker is one if the training data has speakers.

A batch's sentences are read together; then its documents are processed one by one.

Shapes: N sentences, T words of the longest, P words of a document, W widths of spans, M mentions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from elmox.config import Strict
from elmox.errors import ElmoxError
from elmox.io.settings import PositiveFloat, PositiveInt, Share
from elmox.io.transfer import to_device
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.coref.antecedents import AntecedentScorer, antecedent_loss, gold_antecedents
from elmox.tasks.coref.documents import Clusters, Document
from elmox.tasks.coref.mentions import Mentions, MentionScorer
from elmox.tasks.data.conll2012 import Mention
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import Encoder, LayerWidths, SharedDropout

LARGEST_WIDTH = 50  # words of a mention: more would be a mistake, and fill the memory


@dataclass(frozen=True)
class CoreferenceSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        hidden: LSTM cells of each direction, layer by layer.
        feed_forward: widths of the layers of each feed-forward net.
        feature_dim: width of the embeddings of widths, distances and speakers.
        max_width: words of a mention, at most.
        spans_per_word: spans that are kept as mentions, per word of the document; in training at
            least as many as there are mentions of entities.
        antecedents: candidates of a mention, at most: the nearest ones.
        sentences: sentences of a document in training, at most. Longer documents are split into
            equal parts (the paper draws another piece every time), and links between two parts are
            lost.
        dropout: on the layers of feed-forward nets and on the embeddings of features.
        lstm_dropout: on the LSTM's output, one mask for all words of a sentence.
    """

    hidden: LayerWidths = (200,)
    feed_forward: LayerWidths = (150, 150)
    feature_dim: PositiveInt = 20
    max_width: PositiveInt = 10
    spans_per_word: PositiveFloat = 0.4
    antecedents: PositiveInt = 250
    sentences: PositiveInt = 50
    dropout: Share = 0.2
    lstm_dropout: Share = 0.4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_width > LARGEST_WIDTH:
            raise ElmoxError(
                f"head.max_width is {self.max_width}, expected at most {LARGEST_WIDTH}: memory "
                "grows with its third power"
            )


@dataclass(frozen=True)
class CoreferenceConfig(Strict):
    """A span ranker without its weights."""

    settings: CoreferenceSettings
    speakers: bool  # use the speaker as a feature


@dataclass(frozen=True)
class _Gold:
    """The gold entities of a document, in training.

    Attributes:
        entities: for each span the number of its entity, from 1 on, or 0: (P, W).
        count: number of spans that have one; counted on the host, so as not to wait for a GPU.
    """

    entities: Tensor
    count: int


@dataclass(frozen=True)
class _Ranked:
    """The network's output for a document."""

    mentions: Mentions
    scores: Tensor  # (M, 1 + K) of antecedents


class SpanRanker(Head[Document, Clusters]):
    """Spans, mentions, antecedents."""

    def __init__(self, config: CoreferenceConfig, widths: Widths) -> None:
        super().__init__()
        settings = config.settings
        self._settings = settings
        self.encoder = Encoder(widths, settings.hidden, SharedDropout(settings.lstm_dropout))
        self.mentions = MentionScorer(
            self.encoder.width,
            widths.input,
            max_width=settings.max_width,
            feature_dim=settings.feature_dim,
            hidden=settings.feed_forward,
            dropout=settings.dropout,
        )
        self.antecedents = AntecedentScorer(
            self.mentions.width,
            most=settings.antecedents,
            feature_dim=settings.feature_dim,
            hidden=settings.feed_forward,
            dropout=settings.dropout,
            speakers=config.speakers,
        )

    def forward(
        self, texts: Embedded, examples: Sequence[Document], gold: Sequence[_Gold] | None = None
    ) -> Iterator[_Ranked]:
        """Rank the spans of one document after the other.

        Args:
            texts: their sentences.
            examples: the documents.
            gold: the entities of each document, all of whose mentions are kept; None to predict
                them.
        """
        encoded = self.encoder(texts).flatten(0, 1)  # (N * T, X)
        embedded = texts.input.flatten(0, 1)  # (N * T, E)
        longest, row = texts.mask.shape[1], 0
        for index, document in enumerate(examples):
            lengths = texts.lengths[row : row + len(document.sentences)].numpy()
            ends = np.repeat(np.cumsum(lengths), lengths)  # (P,)
            rows = np.repeat(np.arange(row, row + len(lengths)), lengths)
            steps = np.arange(len(ends)) - ends + lengths[rows - row]
            arrays = np.stack([rows * longest + steps, ends, _speakers(document)])
            words, stops, speakers = to_device(arrays, encoded.device)
            count = max(1, int(self._settings.spans_per_word * len(ends)))
            first: Tensor | None = None
            if gold is not None:  # a short document may have more of them than it would keep
                count, first = max(count, gold[index].count), gold[index].entities > 0
            mentions = self.mentions(
                F.embedding(words, encoded), F.embedding(words, embedded), stops, count, first
            )
            yield _Ranked(mentions, self.antecedents(mentions, speakers))
            row += len(lengths)

    def loss(self, texts: Embedded, examples: Sequence[Document]) -> Tensor:
        """Return the mean over documents of the mean over mentions."""
        most, device = self._settings.max_width, texts.mask.device
        golds = [_gold(document, most, device) for document in examples]
        losses = []
        for gold, ranked in zip(golds, self(texts, examples, golds), strict=True):
            entities = gold.entities.flatten()[ranked.mentions.indices]
            antecedents = gold_antecedents(entities, ranked.scores.shape[1] - 1)
            losses.append(antecedent_loss(ranked.scores, antecedents))
        return torch.stack(losses).mean()

    def predict(self, texts: Embedded, examples: Sequence[Document]) -> list[Clusters]:
        """Return the entities of each document, of two mentions or more."""
        clusters = []
        for ranked in self(texts, examples):
            bounds = zip(
                ranked.mentions.starts.tolist(), ranked.mentions.lasts.tolist(), strict=True
            )
            spans = [Mention(start, last + 1) for start, last in bounds]
            clusters.append(linked(spans, ranked.scores.argmax(1).tolist()))
        return clusters


def linked(mentions: Sequence[Mention], offsets: Sequence[int]) -> Clusters:
    """Return the entities that links form, ordered by their first mentions.

    Args:
        mentions: of a document.
        offsets: for each mention, its distance to its antecedent in mentions; 0 for none.
    """
    clusters: dict[int, list[Mention]] = {}  # by the index of each mention that is in one
    for index, (mention, offset) in enumerate(zip(mentions, offsets, strict=True)):
        if offset:
            before = index - offset
            clusters[index] = clusters.setdefault(before, [mentions[before]])
            clusters[index].append(mention)
    distinct = {id(cluster): tuple(cluster) for cluster in clusters.values()}
    return tuple(sorted(distinct.values()))


def _speakers(document: Document) -> NDArray[np.int64]:
    """Return a number for each word's speaker; an unknown one is a speaker too: (P,)."""
    if not document.speakers:
        return np.zeros(sum(map(len, document.sentences)), np.int64)
    _, numbers = np.unique(np.array(document.speakers), return_inverse=True)
    return numbers.astype(np.int64)


def _gold(document: Document, max_width: int, device: torch.device) -> _Gold:
    entities = _entities(document, max_width)
    return _Gold(to_device(entities, device), int(np.count_nonzero(entities)))


def _entities(document: Document, max_width: int) -> NDArray[np.int64]:
    """Return for each span the number of its entity, from 1 on, or 0: (P, W).

    Entities of one mention have 0: there is nothing to learn from them. A mention of two entities
    has the number of the first, as in the scores.
    """
    numbers = np.zeros((sum(map(len, document.sentences)), max_width), np.int64)
    several = [cluster for cluster in document.clusters if len(cluster) > 1]
    for number, cluster in reversed([*enumerate(several, start=1)]):
        for start, stop in cluster:
            if stop - start <= max_width:
                numbers[start, stop - start - 1] = number
    return numbers
