"""Sentiment: how positive a sentence is, on a scale of five labels or two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.tasks.base import Offsets, Task, TaskOutput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.metrics.classification import score_labels
from elmox.tasks.nn.classifier import Probabilities, most_likely
from elmox.tasks.sentiment.network import Biattentive, Opinion, SentimentSettings, label_of
from elmox.tasks.sentiment.trees import read_sentiment


@dataclass(frozen=True)
class SentimentOutput(TaskOutput):
    """A sentence with its sentiment.

    Attributes:
        tokens: its words.
        label: the most likely label; None for a sentence without words.
        probabilities: of all labels; empty for a sentence without words.
        offsets: first character of each token and the one after its last; None if the input was
            tokens.
    """

    tokens: tuple[str, ...]
    label: str | None
    probabilities: Probabilities
    offsets: Offsets | None = None


class Sentiment(Task[Opinion, Probabilities]):
    """The sentiment of sentences, trained on all phrases of their trees."""

    settings_type = SentimentSettings
    config_type = SentimentSettings
    head_type = Biattentive

    def read(self, path: Path, settings: Any = None) -> list[Opinion]:
        """Read the sentences of the Stanford Sentiment Treebank's trees."""
        return [Opinion(tree.words, tree.label, tree.phrases) for tree in read_sentiment(path)]

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> Opinion:
        """Return a text without a label."""
        return Opinion(tuple(values["tokens"]))

    def empty_prediction(self) -> Probabilities:
        """Return no label."""
        return {}

    def sentences(self, example: Opinion) -> Sequence[Sentence]:
        """Return the text itself."""
        return (example.words,)

    def configure(self, train: Sequence[Opinion], settings: SentimentSettings) -> SentimentSettings:
        """Return the settings, which determine everything."""
        return settings

    def labels(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the five sentiments, or the two polarities."""
        return self.settings_type(**config).labels

    def training_examples(
        self, examples: Sequence[Opinion], settings: SentimentSettings, log: Log
    ) -> list[Opinion]:
        """Return each distinct phrase once, from single words to whole sentences."""
        texts = [(example.words, example.sentiment) for example in examples]
        if settings.phrases:
            texts += [
                (example.words[start:stop], int(label))
                for example in examples
                for label, start, stop in example.phrases
            ]
            texts = list(dict.fromkeys(texts))
        opinions = [Opinion(words, sentiment) for words, sentiment in texts]
        labeled = [opinion for opinion in opinions if label_of(opinion.sentiment, settings.labels)]
        if not labeled:
            raise NothingToLearn("nothing to learn from: head.binary leaves out neutral examples")
        return labeled

    def check_scorable(
        self, examples: Sequence[Opinion], settings: SentimentSettings, source: str
    ) -> None:
        """Refuse files of neutral sentences if there are only two labels."""
        if not any(label_of(example.sentiment, settings.labels) for example in examples):
            raise ElmoxError(
                f"{source}: nothing to score, all of {len(examples):,} sentences are neutral: "
                "expected others too, or head.binary=false"
            )

    def score(
        self, examples: Sequence[Opinion], predictions: Sequence[Probabilities]
    ) -> dict[str, float]:
        """Return the accuracy over sentences; with two labels, over those that are not neutral."""
        pairs = [
            (label, most_likely(prediction))
            for example, prediction in zip(examples, predictions, strict=True)
            if (label := label_of(example.sentiment, tuple(prediction))) is not None
        ]
        gold, predicted = [label for label, _ in pairs], [label for _, label in pairs]
        return {"accuracy": score_labels(gold, predicted).accuracy}

    def format_prediction(
        self, example: Opinion, prediction: Probabilities, offsets: Mapping[str, Any]
    ) -> SentimentOutput:
        """Return the words, the most likely label, and the probabilities of all."""
        label = most_likely(prediction) if prediction else None
        return SentimentOutput(example.words, label, prediction, offsets.get("tokens"))
