"""ESIM, the paper's network for entailment (Chen et al. 2017; supplement A.3).

One bidirectional LSTM reads both sentences, every word attends to the other sentence, a second LSTM
composes the words with what they attended to, and a classifier reads the pooled sentences.

ELMo joins the lowest LSTM's input, its output, or both. `middle` and `output` are the same place
here: after that LSTM, where the words of one sentence then attend to ELMo's vectors of the other.

Shapes: B pairs, N = 2B sentences (a premise, then its hypothesis), T words, H cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmox.config import Strict
from elmox.io.settings import PositiveInt, Share
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.classifier import Probabilities, class_loss, class_probabilities
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import BiLstm, SharedDropout, encode_texts
from elmox.tasks.nn.pooling import attended, max_pooled, mean_pooled


@dataclass(frozen=True)
class EntailmentPair:
    """Two tokenized sentences, either of which may be empty, and their entailment."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None


@dataclass(frozen=True)
class EntailmentSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        hidden: cells of each direction of both LSTMs, and the width of the other layers.
        dropout: on the input of the second LSTM, one mask for all words of a sentence (variational
            dropout, Gal and Ghahramani 2016), and on the input of the last two layers. The lowest
            LSTM has none: `words.dropout` and `elmo.dropout` precede it.
    """

    hidden: PositiveInt = 300
    dropout: Share = 0.5


@dataclass(frozen=True)
class EntailmentConfig(Strict):
    """ESIM without its weights."""

    settings: EntailmentSettings
    labels: tuple[str, ...]


class Esim(Head[EntailmentPair, Probabilities]):
    """The enhanced sequential inference model."""

    def __init__(self, config: EntailmentConfig, widths: Widths) -> None:
        super().__init__()
        settings, self._labels = config.settings, config.labels
        self._ids = {label: index for index, label in enumerate(self._labels)}
        hidden = settings.hidden
        self.encoder = BiLstm(widths.input, hidden)
        encoded = 2 * hidden + widths.middle + widths.output
        self.projection = nn.Sequential(nn.Linear(4 * encoded, hidden), nn.ReLU())
        self.thin = SharedDropout(settings.dropout)
        self.composition = BiLstm(hidden, hidden)
        self.classifier = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(8 * hidden, hidden),
            nn.Tanh(),
            nn.Dropout(settings.dropout),
            nn.Linear(hidden, len(self._labels)),
        )

    def forward(self, texts: Embedded) -> Tensor:
        """Return a score for every pair and label, (B, C)."""
        # Empty sentences are read as one word: corpora have a few, and scores are over all pairs.
        words, mask, order = encode_texts(self.encoder, texts)
        other = attended(words, _swapped(words), _swapped(mask))
        enhanced = torch.cat([words, other, words - other, words * other], dim=-1)
        composed = self.composition(self.thin(self.projection(enhanced)), order)
        pooled = torch.cat([mean_pooled(composed, mask), max_pooled(composed, mask)], dim=-1)
        scores: Tensor = self.classifier(pooled.reshape(len(mask) // 2, -1))  # of (B, 8H)
        return scores

    def loss(self, texts: Embedded, examples: Sequence[EntailmentPair]) -> Tensor:
        """Return the mean cross entropy."""
        return class_loss(self(texts), [self._ids[example.label or ""] for example in examples])

    def predict(self, texts: Embedded, examples: Sequence[EntailmentPair]) -> list[Probabilities]:
        """Return the probabilities of the labels."""
        return class_probabilities(self(texts), self._labels)


def _swapped(sentences: Tensor) -> Tensor:
    """Return the sentences with the two of each pair swapped: (N, ...)."""
    return sentences.view(-1, 2, *sentences.shape[1:]).flip(1).flatten(0, 1)
