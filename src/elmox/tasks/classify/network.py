"""A classifier of texts, or of pairs of texts.

A bidirectional LSTM reads the words; attention and the maximum over words pool them to one vector u
per text; two layers classify it. Two texts are pooled by the same layers to u and v, and classified
by [u; v; |u - v|; u * v] (Conneau et al. 2017).

ELMo joins the LSTM's input, its output, or both. `middle` and `output` are the same place here:
after the LSTM. A text is read as one sentence.

Shapes: B examples, N texts (B, or 2B for pairs, the two of a pair in a row), T words, D wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmox.config import Strict
from elmox.errors import ElmoxError
from elmox.io.settings import PositiveInt, Share
from elmox.tasks.base import Head, HeadSettings
from elmox.tasks.nn.classifier import Probabilities, class_loss, class_probabilities
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.nn.encoder import BiLstm, encode_texts
from elmox.tasks.nn.pooling import max_pooled


@dataclass(frozen=True)
class LabeledText:
    """One text or two, tokenized, and a label.

    Attributes:
        texts: the tokens of each text, perhaps none.
        label: None if it is not known.
    """

    texts: tuple[tuple[str, ...], ...]
    label: str | None = None


@dataclass(frozen=True)
class ClassifierSettings(HeadSettings):
    """Settings of a recipe's `[head]`.

    Attributes:
        text_column: column of the text.
        label_column: column of the label.
        pair_column: column of a second text; empty to classify single texts.
        tokenizer: tokenizer of the texts: `treebank`, `whitespace` or `spacy:LANG`.
        max_words: words of a text, at most; the rest is cut off.
        hidden: LSTM cells of each direction, and width of the layer before the last.
        dropout: on the input of the last two layers.
    """

    text_column: str = "text"
    label_column: str = "label"
    pair_column: str = ""
    tokenizer: str = "treebank"
    max_words: PositiveInt = 500
    hidden: PositiveInt = 200
    dropout: Share = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.columns)) < len(self.columns):
            raise ElmoxError(
                f"head.text_column, head.label_column and head.pair_column are {self.columns}, "
                "expected different names"
            )

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns of the texts: one, or two for pairs."""
        return (self.text_column, self.pair_column) if self.pair_column else (self.text_column,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a labeled file."""
        return (*self.text_columns, self.label_column)


@dataclass(frozen=True)
class ClassifierConfig(Strict):
    """A classifier without its weights."""

    settings: ClassifierSettings
    labels: tuple[str, ...]


class TextClassifier(Head[LabeledText, Probabilities]):
    """A bidirectional LSTM, pooling and two layers."""

    def __init__(self, config: ClassifierConfig, widths: Widths) -> None:
        super().__init__()
        settings, self._labels = config.settings, config.labels
        self._ids = {label: index for index, label in enumerate(self._labels)}
        self._is_pair = bool(settings.pair_column)
        self.encoder = BiLstm(widths.input, settings.hidden)
        encoded = 2 * settings.hidden + widths.middle + widths.output
        self.importance = nn.Linear(encoded, 1, bias=False)  # a softmax ignores a bias
        pooled = 2 * encoded * (4 if self._is_pair else 1)
        self.classifier = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(pooled, settings.hidden),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden, len(self._labels)),
        )

    def forward(self, texts: Embedded) -> Tensor:
        """Return a score for every example and label, (B, C)."""
        words, mask, _ = encode_texts(self.encoder, texts)
        importance = self.importance(words).masked_fill(~mask[..., None], -torch.inf).softmax(1)
        pooled = torch.cat([(importance * words).sum(1), max_pooled(words, mask)], dim=-1)
        if self._is_pair:
            first, second = pooled[::2], pooled[1::2]
            parts = [first, second, (first - second).abs(), first * second]
            pooled = torch.cat(parts, dim=-1)
        scores: Tensor = self.classifier(pooled)
        return scores

    def loss(self, texts: Embedded, examples: Sequence[LabeledText]) -> Tensor:
        """Return the mean cross entropy."""
        return class_loss(self(texts), [self._ids[example.label or ""] for example in examples])

    def predict(self, texts: Embedded, examples: Sequence[LabeledText]) -> list[Probabilities]:
        """Return the probabilities of the labels."""
        return class_probabilities(self(texts), self._labels)
