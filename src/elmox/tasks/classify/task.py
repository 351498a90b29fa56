"""Text classification: one of the user's labels for each text, or for each pair of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError, NothingToLearn
from elmox.tasks.base import Task, TaskOutput
from elmox.tasks.classify.network import (
    ClassifierConfig,
    ClassifierSettings,
    LabeledText,
    TextClassifier,
)
from elmox.tasks.data.input_formats import InputFormat, NamedTextsInput, TextInput
from elmox.tasks.data.tables import MissingColumn, Row, read_table
from elmox.tasks.data.texts import Sentence
from elmox.tasks.metrics.classification import score_labels
from elmox.tasks.nn.classifier import Probabilities, most_likely
from elmox.text.lines import Tokenize
from elmox.text.tokenize import get_tokenizer


@dataclass(frozen=True)
class ClassifyOutput(TaskOutput):
    """A text, or a pair of texts, with its label.

    Attributes:
        label: the most likely label.
        probabilities: of all labels.
    """

    label: str
    probabilities: Probabilities


class Classify(Task[LabeledText, Probabilities]):
    """A label for each text, or for each pair of texts."""

    settings_type = ClassifierSettings
    config_type = ClassifierConfig
    head_type = TextClassifier

    def tokenizer_for(self, settings: ClassifierSettings) -> str:
        """Return the tokenizer of the settings."""
        return settings.tokenizer

    def input_format_for(self, settings: ClassifierSettings) -> InputFormat:
        """Return the columns of the texts as keys."""
        if settings.pair_column:
            return NamedTextsInput(*settings.text_columns, keeps_text=True)
        return TextInput(settings.text_column)

    def read(self, path: Path, settings: ClassifierSettings | None = None) -> list[LabeledText]:
        """Read CSV, TSV or JSON lines."""
        settings = settings or ClassifierSettings()
        tokenize = get_tokenizer(settings.tokenizer)
        try:
            rows = read_table(path, settings.columns)
            examples = [_example(row, settings, tokenize) for row in rows]
        except MissingColumn as error:
            named = "label" if error.column == settings.label_column else "text"
            named = "pair" if error.column == settings.pair_column else named
            raise ElmoxError(f"{error}: rename a column, or set head.{named}_column") from None
        if not examples:
            raise ElmoxError(f"{path} has no rows: expected a text and a label in each")
        return examples

    def example_from_input(
        self, values: Mapping[str, Any], settings: ClassifierSettings | None = None
    ) -> LabeledText:
        """Return texts without a label."""
        settings = settings or ClassifierSettings()
        texts = (values[column] for column in settings.text_columns)
        return LabeledText(tuple(tuple(tokens[: settings.max_words]) for tokens in texts))

    def sentences(self, example: LabeledText) -> Sequence[Sentence]:
        """Return the texts, each as one sentence."""
        return example.texts

    def configure(
        self, train: Sequence[LabeledText], settings: ClassifierSettings
    ) -> ClassifierConfig:
        """Collect the labels of the training data, of which there must be two at least."""
        labels = sorted({example.label or "" for example in train})
        if len(labels) < 2:
            raise NothingToLearn(
                f"nothing to learn from, the only label of {len(train):,} training examples is "
                f"{labels[0]!r}: expected two labels or more in column {settings.label_column!r}"
            )
        return ClassifierConfig(settings, tuple(labels))

    def score(
        self, examples: Sequence[LabeledText], predictions: Sequence[Probabilities]
    ) -> dict[str, float]:
        """Return accuracy and macro F1, the mean F1 of the labels."""
        gold = [example.label or "" for example in examples]
        scores = score_labels(gold, list(map(most_likely, predictions)))
        return {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}

    def format_prediction(
        self, example: LabeledText, prediction: Probabilities, offsets: Mapping[str, Any]
    ) -> ClassifyOutput:
        """Return the most likely label, and the probabilities of all."""
        return ClassifyOutput(most_likely(prediction), prediction)


def _example(row: Row, settings: ClassifierSettings, tokenize: Tokenize) -> LabeledText:
    """Return a row's texts, tokenized and cut, with its label."""
    texts = []
    for column in settings.text_columns:
        text = row.values[column]
        if not isinstance(text, str):
            raise ElmoxError(f"{row.where}: {column} is {text!r:.60}, expected a string")
        texts.append(tuple(tokenize(text)[: settings.max_words]))
    label = row.values[settings.label_column]
    if isinstance(label, bool | int):  # of JSON
        label = str(label)
    if not isinstance(label, str) or not label.strip():
        raise ElmoxError(f"{row.where}: {settings.label_column} is {label!r:.60}, expected a label")
    return LabeledText(tuple(texts), label.strip())
