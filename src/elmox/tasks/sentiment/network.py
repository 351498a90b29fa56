"""The biattentive classification network (McCann et al. 2017), the paper's network for sentiment.

The paper gives it ELMo in place of CoVe. It was designed for pairs of texts and reads a single text
twice; both halves would then compute the same, so there is only one here: a ReLU layer, a
bidirectional LSTM, attention of every word to all words, a second LSTM that integrates what they
attended to, four kinds of pooling, and maxout layers. Those are not batch-normalized: most phrases
are short, so averages over them do not fit the sentences that are scored.

ELMo joins the input; `middle`, the output of the first LSTM; `output`, that of the second.

Shapes: N sentences, T words, H cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from elmox.io.settings import PositiveInt, Share, at_least
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.classifier import Probabilities, class_loss, class_probabilities
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import BiLstm, PackedOrder
from elmox.tasks.nn.pooling import attended, max_pooled, mean_pooled
from elmox.tasks.sentiment.trees import SENTIMENTS, Phrase

POLARITIES = ("negative", "positive")
NEUTRAL = SENTIMENTS.index("neutral")


@dataclass(frozen=True)
class Opinion:
    """A tokenized text.

    Attributes:
        words: its tokens.
        sentiment: 0, very negative, to 4, very positive; None if it is not labeled.
        phrases: its labeled parts, itself first.
    """

    words: tuple[str, ...]
    sentiment: int | None = None
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True)
class SentimentSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        phrases: train on all labeled phrases; otherwise on whole sentences only.
        binary: predict two labels, negative and positive; neutral sentences are left out.
        hidden: width of the ReLU layer, and cells of each direction of both LSTMs.
        maxout: widths of the maxout layers before the last, which has one output per label.
        channels: linear maps per maxout layer.
        dropout: on the input of the first LSTM, and of every layer after the second.
    """

    phrases: bool = True
    binary: bool = False
    hidden: PositiveInt = 300
    maxout: tuple[int, ...] = (1200, 600)
    channels: PositiveInt = 4
    dropout: Share = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self.maxout:
            at_least(1, "head.maxout", width)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are predicted."""
        return POLARITIES if self.binary else SENTIMENTS


def label_of(sentiment: int | None, labels: Sequence[str]) -> str | None:
    """Return a sentiment as one of the labels; None if there is none for it."""
    if sentiment is None or len(labels) == len(SENTIMENTS):
        return None if sentiment is None else SENTIMENTS[sentiment]
    return None if sentiment == NEUTRAL else POLARITIES[sentiment > NEUTRAL]


class Biattentive(Head[Opinion, Probabilities]):
    """The biattentive classification network."""

    def __init__(self, settings: SentimentSettings, widths: Widths) -> None:
        super().__init__()
        self._labels = settings.labels
        hidden = settings.hidden
        self.dropout = nn.Dropout(settings.dropout)
        self.feedforward = nn.Sequential(nn.Linear(widths.input, hidden), nn.ReLU())
        self.encoder = BiLstm(hidden, hidden)
        self.integrator = BiLstm(3 * (2 * hidden + widths.middle), hidden)
        integrated = 2 * hidden + widths.output
        self.importance = nn.Linear(integrated, 1, bias=False)  # a softmax ignores a bias
        sizes = (4 * integrated, *settings.maxout, len(self._labels))
        layers = (Maxout(size, width, settings.channels) for size, width in pairwise(sizes))
        self.classifier = nn.ModuleList(layers)

    def forward(self, texts: Embedded) -> Tensor:
        """Return a score for every sentence and label, (N, C)."""
        mask, order = texts.mask, PackedOrder.of(texts.lengths, texts.input)
        words = self.encoder(self.dropout(self.feedforward(texts.input)), order)  # (N, T, 2H)
        if texts.middle is not None:
            words = torch.cat([words, texts.middle], dim=-1)
        other = attended(words, words, mask)
        words = self.integrator(torch.cat([words, words - other, words * other], dim=-1), order)
        if texts.output is not None:
            words = torch.cat([words, texts.output], dim=-1)
        scores = self._pooled(words, mask)
        for layer in self.classifier:
            scores = layer(self.dropout(scores))
        return scores

    def _pooled(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return largest, smallest and mean values, and a mean by importance, (N, 4D)."""
        importance = self.importance(self.dropout(words)).masked_fill(~mask[..., None], -torch.inf)
        by_importance = (importance.softmax(1) * words).sum(1)
        smallest = -max_pooled(-words, mask)
        parts = [max_pooled(words, mask), smallest, mean_pooled(words, mask), by_importance]
        return torch.cat(parts, dim=-1)

    def loss(self, texts: Embedded, examples: Sequence[Opinion]) -> Tensor:
        """Return the mean cross entropy."""
        labels = [label_of(example.sentiment, self._labels) for example in examples]
        return class_loss(self(texts), [self._labels.index(label or "") for label in labels])

    def predict(self, texts: Embedded, examples: Sequence[Opinion]) -> list[Probabilities]:
        """Return the probabilities of the labels."""
        return class_probabilities(self(texts), self._labels)


class Maxout(nn.Module):
    """The largest of several linear maps, value by value (Goodfellow et al. 2013)."""

    def __init__(self, input_dim: int, output_dim: int, channels: int) -> None:
        super().__init__()
        self._shape = (output_dim, channels)
        self.maps = nn.Linear(input_dim, output_dim * channels)

    def forward(self, x: Tensor) -> Tensor:
        """(N, input_dim) to (N, output_dim)."""
        maps: Tensor = self.maps(x)
        return maps.view(-1, *self._shape).amax(-1)
