"""Sentiment: how positive a sentence is, in five degrees or two.

The paper's network is the biattentive classification network (McCann et al. 2017), which the paper
gives ELMo in place of CoVe. It was made for pairs of texts and gets a single one twice; as both
halves would then see the same, there is one of them here: a ReLU layer, a bidirectional LSTM,
attention of every word to all words, a second LSTM that integrates what they found, four ways of
pooling, and layers of maxout. Those are not batch-normalized: averages over phrases, most of them
short, are no measure for the sentences that count.

ELMo joins the input; `middle`, what the first LSTM gives; `output`, what the second one gives.

Shapes: N sentences, T words, H cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmox.config import validated
from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.io.settings import at_least, share
from elmox.tasks.data.questions import Questions, Sentences
from elmox.tasks.data.texts import Sentence
from elmox.tasks.metrics.classification import score_labels
from elmox.tasks.nn.classifier import (
    Probabilities,
    attended,
    class_loss,
    class_probabilities,
    likeliest,
    max_pooled,
    mean_pooled,
)
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import BiLstm, PackedOrder
from elmox.tasks.sentiment.trees import SENTIMENTS, Phrase, read_sentiment

POLARITIES = ("negative", "positive")
NEUTRAL = SENTIMENTS.index("neutral")


@dataclass(frozen=True)
class Opinion:
    """A tokenized text.

    Attributes:
        words: its tokens.
        sentiment: 0, very negative, to 4, very positive; None where it is not known.
        phrases: its labeled parts, itself first.
    """

    words: tuple[str, ...]
    sentiment: int | None = None
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True)
class SentimentSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        phrases: whether all labeled phrases are learned from, or whole sentences alone.
        binary: negative and positive, in one degree each; what is neutral is left out.
        hidden: width of the ReLU layer, and cells of each direction of both LSTMs.
        maxout: widths of the layers of maxout before the last, which is as wide as there are
            labels.
        channels: linear maps of which maxout takes the largest.
        dropout: on what goes into the first LSTM, and into every layer after the second.
    """

    phrases: bool = True
    binary: bool = False
    hidden: int = 300
    maxout: tuple[int, ...] = (1200, 600)
    channels: int = 4
    dropout: float = 0.2

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        for width in self.maxout:
            at_least(1, "head.maxout", width)
        at_least(1, "head.hidden", self.hidden)
        at_least(1, "head.channels", self.channels)
        share("head.dropout", self.dropout)

    @property
    def labels(self) -> tuple[str, ...]:
        """What is answered."""
        return POLARITIES if self.binary else SENTIMENTS


def label_of(sentiment: int | None, labels: Sequence[str]) -> str | None:
    """A sentiment as one of the labels; None where there is none for it."""
    if sentiment is None or len(labels) == len(SENTIMENTS):
        return None if sentiment is None else SENTIMENTS[sentiment]
    return None if sentiment == NEUTRAL else POLARITIES[sentiment > NEUTRAL]


class Sentiment:
    """The task; a `Task`, whose training examples are more than those of its file, and which
    `ScoresSome`."""

    def __init__(self, name: str = "sst") -> None:
        self.name = name
        self.metric = "accuracy"
        self.asks: Questions = Sentences()
        self.tokenizer: str | None = None

    def read(self, path: Path) -> list[Opinion]:
        """The sentences of the Stanford Sentiment Treebank's trees."""
        return [Opinion(own.words, own.label, own.phrases) for own in read_sentiment(path)]

    def training_examples(
        self,
        examples: Sequence[Opinion],
        settings: Mapping[str, Any],
        log: Log = lambda message: None,
    ) -> list[Opinion]:
        """What is learned from: each distinct phrase once, from single words to whole sentences.

        Args:
            examples: as `read` gave them.
            settings: the recipe's, under `[head]`.
            log: told nothing.
        """
        own = validated(SentimentSettings, settings, "the recipe's [head]")
        texts = [(example.words, example.sentiment) for example in examples]
        if own.phrases:
            texts += [
                (example.words[start:stop], int(label))
                for example in examples
                for label, start, stop in example.phrases
            ]
            texts = list(dict.fromkeys(texts))
        found = [Opinion(words, sentiment) for words, sentiment in texts]
        found = [example for example in found if label_of(example.sentiment, own.labels)]
        if not found:
            raise NothingToLearn("nothing to learn from: head.binary leaves out what is neutral")
        return found

    def unlabeled(self, values: Mapping[str, Any]) -> Opinion:
        """A text of which nothing is known."""
        return Opinion(tuple(values["tokens"]))

    def without_words(self) -> Probabilities:
        """No label is likely."""
        return {}

    def sentences(self, example: Opinion) -> Sequence[Sentence]:
        """The text itself."""
        return (example.words,)

    def describe(self, train: Sequence[Opinion], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings, which say all."""
        return asdict(validated(SentimentSettings, settings, "the recipe's [head]"))

    def check_scored(self, examples: Sequence[Opinion], settings: Mapping[str, Any]) -> None:
        """Two degrees have no label for what is neutral."""
        own = validated(SentimentSettings, settings, "the recipe's [head]")
        if not any(label_of(example.sentiment, own.labels) for example in examples):
            raise ElmoxError(
                f"nothing to score, all of {len(examples):,} sentences are neutral: expected "
                "others too, or head.binary=false"
            )

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A network with fresh weights."""
        return Biattentive(validated(SentimentSettings, description, "the sentiment model"), widths)

    def score(
        self, examples: Sequence[Opinion], answers: Sequence[Probabilities]
    ) -> dict[str, float]:
        """Accuracy over whole sentences; of two degrees, over those that are not neutral."""
        gold = [
            label_of(example.sentiment, tuple(answer))
            for example, answer in zip(examples, answers, strict=True)
        ]
        counted = [
            (label, likeliest(answer))
            for label, answer in zip(gold, answers, strict=True)
            if label is not None
        ]
        found = score_labels([label for label, _ in counted], [said for _, said in counted])
        return {"accuracy": found.accuracy}

    def show(self, example: Opinion, answer: Probabilities) -> dict[str, Any]:
        """The words, the likeliest label (none without words), and how likely each one is."""
        return {
            "tokens": list(example.words),
            "label": likeliest(answer) if answer else None,
            "probabilities": dict(answer),
        }


class Biattentive(nn.Module):
    """The biattentive classification network; a `Head`."""

    def __init__(self, settings: SentimentSettings, widths: Widths) -> None:
        super().__init__()
        self._labels = settings.labels
        hidden = settings.hidden
        self.dropout = nn.Dropout(settings.dropout)
        self.feedforward = nn.Sequential(nn.Linear(widths.input, hidden), nn.ReLU())
        self.encoder = BiLstm(hidden, hidden)
        self.integrator = BiLstm(3 * (2 * hidden + widths.middle), hidden)
        integrated = 2 * hidden + widths.output
        self.importance = nn.Linear(integrated, 1, bias=False)  # a softmax takes no note of a bias
        sizes = (4 * integrated, *settings.maxout, len(self._labels))
        layers = (Maxout(size, wanted, settings.channels) for size, wanted in pairwise(sizes))
        self.classifier = nn.ModuleList(layers)

    def forward(self, texts: Embedded) -> Tensor:
        """A score for every sentence and label, (N, C)."""
        mask, order = texts.mask, PackedOrder.of(texts.lengths, texts.input)
        found = self.encoder(self.dropout(self.feedforward(texts.input)), order)  # (N, T, 2H)
        if texts.middle is not None:
            found = torch.cat([found, texts.middle], dim=-1)
        other = attended(found, found, mask)
        found = self.integrator(torch.cat([found, found - other, found * other], dim=-1), order)
        if texts.output is not None:
            found = torch.cat([found, texts.output], dim=-1)
        scores = self._pooled(found, mask)
        for layer in self.classifier:
            scores = layer(self.dropout(scores))
        return scores

    def _pooled(self, words: Tensor, mask: Tensor) -> Tensor:
        """Largest, smallest and mean values, and a mean by importance, (N, 4D)."""
        importance = self.importance(self.dropout(words)).masked_fill(~mask[..., None], -torch.inf)
        by_importance = (importance.softmax(1) * words).sum(1)
        smallest = -max_pooled(-words, mask)
        parts = [max_pooled(words, mask), smallest, mean_pooled(words, mask), by_importance]
        return torch.cat(parts, dim=-1)

    def loss(self, texts: Embedded, examples: Sequence[Opinion]) -> Tensor:
        """The mean cross entropy."""
        labels = [label_of(example.sentiment, self._labels) for example in examples]
        return class_loss(self(texts), [self._labels.index(label or "") for label in labels])

    def answers(self, texts: Embedded, examples: Sequence[Opinion]) -> list[dict[str, float]]:
        """Probabilities of the labels."""
        return class_probabilities(self(texts), self._labels)


class Maxout(nn.Module):
    """The largest of several linear maps, value by value (Goodfellow et al. 2013)."""

    def __init__(self, size: int, wanted: int, channels: int) -> None:
        super().__init__()
        self._shape = (wanted, channels)
        self.maps = nn.Linear(size, wanted * channels)

    def forward(self, x: Tensor) -> Tensor:
        """(N, size) to (N, wanted)."""
        maps: Tensor = self.maps(x)
        return maps.view(-1, *self._shape).amax(-1)
