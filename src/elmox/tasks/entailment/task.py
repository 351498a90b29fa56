"""Entailment: whether a premise entails a hypothesis, contradicts it, or neither.

The paper's network is ESIM (Chen et al. 2017; supplement A.3). One bidirectional LSTM reads both
sentences, every word looks for its counterpart in the other sentence, a second LSTM composes what
they found, and what is pooled of both sentences decides.

ELMo joins the lowest LSTM's input, its output, or both; `middle` and `output` are the same place
here: after that LSTM, where the words of one sentence then look at ELMo's vectors of the other.

Shapes: B pairs, N = 2B sentences (a premise, then its hypothesis), T words, H cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmox.config import validated
from elmox.io.settings import at_least, share
from elmox.io.text_files import text_suffix
from elmox.tasks.data.questions import NamedTexts, Questions
from elmox.tasks.data.texts import Sentence
from elmox.tasks.entailment.pairs import LABELS
from elmox.tasks.entailment.sick import read_sick
from elmox.tasks.entailment.snli import read_snli
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
from elmox.tasks.nn.encoder import BiLstm, PackedOrder, SharedDropout
from elmox.text.tokenize import get_tokenizer

TOKENIZER = "treebank"  # the corpora give strings


@dataclass(frozen=True)
class EntailmentPair:
    """Two tokenized sentences, either of which may be empty, and how they stand to each other."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None


@dataclass(frozen=True)
class EntailmentSettings:
    """What a recipe may say under `[head]`.

    Attributes:
        hidden: cells of each direction of both LSTMs, and the width of the other layers.
        dropout: on what goes into the second LSTM, whose steps all lose the same elements
            (variational dropout, Gal and Ghahramani 2016), and into the last two layers. The lowest
            LSTM reads words that `words.dropout` and `elmo.dropout` have thinned already.
    """

    hidden: int = 300
    dropout: float = 0.5

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a protocol name, not a field)

    def __post_init__(self) -> None:
        at_least(1, "head.hidden", self.hidden)
        share("head.dropout", self.dropout)


@dataclass(frozen=True)
class EntailmentDescription:
    """ESIM, but for its weights."""

    settings: EntailmentSettings
    labels: tuple[str, ...]

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


class Entailment:
    """The task; a `Task`."""

    def __init__(self, name: str = "nli") -> None:
        self.name = name
        self.metric = "accuracy"
        self.asks: Questions = NamedTexts("premise", "hypothesis")
        self.tokenizer: str | None = TOKENIZER

    def read(self, path: Path) -> list[EntailmentPair]:
        """SNLI's JSON lines where the file is called .jsonl (.gz, .xz), SICK's columns else."""
        found = read_snli(path) if text_suffix(path) == ".jsonl" else read_sick(path)
        tokenize = get_tokenizer(TOKENIZER)
        return [
            EntailmentPair(tuple(tokenize(own.premise)), tuple(tokenize(own.hypothesis)), own.label)
            for own in found.pairs
        ]

    def unlabeled(self, values: Mapping[str, Any]) -> EntailmentPair:
        """A pair of which nothing is known."""
        return EntailmentPair(tuple(values["premise"]), tuple(values["hypothesis"]))

    def without_words(self) -> None:
        """ESIM reads empty sentences."""
        return None

    def sentences(self, example: EntailmentPair) -> Sequence[Sentence]:
        """Premise and hypothesis."""
        return (example.premise, example.hypothesis)

    def describe(
        self, train: Sequence[EntailmentPair], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The labels of the training data."""
        own = validated(EntailmentSettings, settings, "the recipe's [head]")
        seen = {example.label for example in train}
        return asdict(EntailmentDescription(own, tuple(name for name in LABELS if name in seen)))

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """ESIM with fresh weights."""
        return Esim(validated(EntailmentDescription, description, "the entailment model"), widths)

    def score(
        self, examples: Sequence[EntailmentPair], answers: Sequence[Probabilities]
    ) -> dict[str, float]:
        """Accuracy."""
        gold = [example.label or "" for example in examples]
        return {"accuracy": score_labels(gold, [likeliest(own) for own in answers]).accuracy}

    def show(self, example: EntailmentPair, answer: Probabilities) -> dict[str, Any]:
        """The sentences, the likeliest label, and how likely each one is."""
        return {
            "premise": list(example.premise),
            "hypothesis": list(example.hypothesis),
            "label": likeliest(answer),
            "probabilities": dict(answer),
        }


class Esim(nn.Module):
    """The enhanced sequential inference model; a `Head`."""

    def __init__(self, description: EntailmentDescription, widths: Widths) -> None:
        super().__init__()
        settings, self._labels = description.settings, description.labels
        self._ids = {label: number for number, label in enumerate(self._labels)}
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
        """A score for every pair and label, (B, C)."""
        # An empty sentence is read as one word, the zeros of its padding. The corpora have a few,
        # and their scores are over all pairs: they are answered like any other.
        mask, order = texts.mask.clone(), PackedOrder.of(texts.lengths.clamp(min=1), texts.input)
        mask[:, 0] = True
        found = self.encoder(texts.input, order)  # (N, T, 2H)
        elmo = [own for own in (texts.middle, texts.output) if own is not None]
        found = torch.cat([found, *elmo], dim=-1)
        other = attended(found, _others(found), _others(mask))
        enhanced = torch.cat([found, other, found - other, found * other], dim=-1)
        composed = self.composition(self.thin(self.projection(enhanced)), order)
        pooled = torch.cat([mean_pooled(composed, mask), max_pooled(composed, mask)], dim=-1)
        scores: Tensor = self.classifier(pooled.reshape(len(mask) // 2, -1))  # of (B, 8H)
        return scores

    def loss(self, texts: Embedded, examples: Sequence[EntailmentPair]) -> Tensor:
        """The mean cross entropy."""
        return class_loss(self(texts), [self._ids[example.label or ""] for example in examples])

    def answers(
        self, texts: Embedded, examples: Sequence[EntailmentPair]
    ) -> list[dict[str, float]]:
        """Probabilities of the labels."""
        return class_probabilities(self(texts), self._labels)


def _others(sentences: Tensor) -> Tensor:
    """Of each pair the other sentence: (N, ...)."""
    return sentences.view(-1, 2, *sentences.shape[1:]).flip(1).flatten(0, 1)
