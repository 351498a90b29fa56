"""Entailment: whether a premise entails a hypothesis, contradicts it, or neither."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.io.text_files import text_suffix
from elmox.tasks.base import Offsets, Task, TaskOutput
from elmox.tasks.data.input_formats import NamedTextsInput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.entailment.network import (
    EntailmentConfig,
    EntailmentPair,
    EntailmentSettings,
    Esim,
)
from elmox.tasks.entailment.readers import LABELS, read_sick, read_snli
from elmox.tasks.metrics.classification import score_labels
from elmox.tasks.nn.classifier import Probabilities, most_likely
from elmox.text.tokenize import get_tokenizer

TOKENIZER = "treebank"  # the corpora have strings


@dataclass(frozen=True)
class EntailmentOutput(TaskOutput):
    """A pair with its entailment.

    Attributes:
        premise, hypothesis: their words.
        label: the most likely label.
        probabilities: of all labels.
        offsets: for each of `premise` and `hypothesis` that was a string, the first character of
            each token and the one after its last.
    """

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str
    probabilities: Probabilities
    offsets: Mapping[str, Offsets] | None = None


class Entailment(Task[EntailmentPair, Probabilities]):
    """The entailment of pairs."""

    input_format = NamedTextsInput("premise", "hypothesis")
    tokenizer = TOKENIZER
    settings_type = EntailmentSettings
    config_type = EntailmentConfig
    head_type = Esim

    def read(self, path: Path, settings: Any = None) -> list[EntailmentPair]:
        """Read SNLI's JSON lines if the file is called .jsonl (.gz, .xz), SICK's columns if not."""
        pairs = read_snli(path) if text_suffix(path) == ".jsonl" else read_sick(path)
        tokenize = get_tokenizer(TOKENIZER)
        return [
            EntailmentPair(
                tuple(tokenize(pair.premise)), tuple(tokenize(pair.hypothesis)), pair.label
            )
            for pair in pairs
        ]

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> EntailmentPair:
        """Return a pair without a label."""
        return EntailmentPair(tuple(values["premise"]), tuple(values["hypothesis"]))

    def sentences(self, example: EntailmentPair) -> Sequence[Sentence]:
        """Return premise and hypothesis."""
        return (example.premise, example.hypothesis)

    def configure(
        self, train: Sequence[EntailmentPair], settings: EntailmentSettings
    ) -> EntailmentConfig:
        """Collect the labels of the training data."""
        labels = {example.label for example in train}
        return EntailmentConfig(settings, tuple(label for label in LABELS if label in labels))

    def score(
        self, examples: Sequence[EntailmentPair], predictions: Sequence[Probabilities]
    ) -> dict[str, float]:
        """Return the accuracy."""
        gold = [example.label or "" for example in examples]
        return {"accuracy": score_labels(gold, list(map(most_likely, predictions))).accuracy}

    def format_prediction(
        self, example: EntailmentPair, prediction: Probabilities, offsets: Mapping[str, Any]
    ) -> EntailmentOutput:
        """Return the sentences, the most likely label, and the probabilities of all."""
        label = most_likely(prediction)
        return EntailmentOutput(
            example.premise, example.hypothesis, label, prediction, offsets or None
        )
