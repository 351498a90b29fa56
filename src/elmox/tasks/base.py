"""The base classes of all tasks: `Task`, its network `Head`, and the `TaskOutput` that users get.

A task is a reader of labeled files, a network and a metric; everything else has a default here. One
loop (`fit/loop.py`) fits them all. `registry.py` lists them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from torch import Tensor, nn

from elmox.config import validated
from elmox.io.progress import Log
from elmox.io.settings import Section
from elmox.tasks.data.input_formats import InputFormat, SentenceInput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths
from elmox.tasks.registry import TaskInfo

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")

Offsets: TypeAlias = Sequence[tuple[int, int]]  # of each token: text[start:end]


@dataclass(frozen=True)
class TaskOutput:
    """A prediction together with the text that it is about; each task has a subclass."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `elmox tag` prints.

        Optional fields (those whose default is None) are left out if they are None.
        """
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class LabeledSpan:
    """A labeled span of a sentence.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        label: the label.
        start_char, end_char: the same in characters of the text; None if only tokens are known.
    """

    start: int
    end: int
    label: str
    start_char: int | None = None
    end_char: int | None = None

    @classmethod
    def at(cls, start: int, end: int, label: str, offsets: Offsets | None) -> "LabeledSpan":
        """Return a span with its characters, if the tokens' offsets are known."""
        return cls(start, end, label, *characters(start, end, offsets))


def characters(
    start: int, end: int, offsets: Offsets | None
) -> tuple[int, int] | tuple[None, None]:
    """Return the first character of tokens `start` to `end` and the one after their last.

    Args:
        start, end: the first token and the one after the last.
        offsets: of all tokens; None returns None twice.
    """
    return (None, None) if offsets is None else (offsets[start][0], offsets[end - 1][1])


class HeadSettings(Section):
    """Settings of a recipe's `[head]`; each task has its own."""

    section: ClassVar = "head"


class Head(nn.Module, ABC, Generic[Example, Prediction]):
    """A task's network on top of embedded sentences."""

    @abstractmethod
    def loss(self, texts: Embedded, examples: Sequence[Example]) -> Tensor:
        """Return the mean loss of a batch: ()."""

    @abstractmethod
    def predict(self, texts: Embedded, examples: Sequence[Example]) -> list[Prediction]:
        """Return a prediction for each example, without using its labels."""


class Task(ABC, Generic[Example, Prediction]):
    """A task: what it reads, what its network is made of, and how it is scored.

    A subclass sets `settings_type`, `config_type` and `head_type`, and defines the abstract
    methods. `Example` is one labeled item of a file, `Prediction` what the network returns for it.

    Attributes:
        info: the task's entry in the registry.
        input_format: the unlabeled inputs of `TaskPredictor` and `elmox tag`; see also
            `input_format_for`.
        tokenizer: the tokenizer for text in the task's files; None if those have tokens. See also
            `tokenizer_for`.
        settings_type: dataclass of a recipe's `[head]`.
        config_type: dataclass of the network: its settings, and what the training data determines,
            such as labels. It is stored with a fitted model.
        head_type: the network; takes an instance of `config_type` and the widths of its inputs.
    """

    input_format: InputFormat = SentenceInput()
    tokenizer: str | None = None
    settings_type: ClassVar[type[Any]]
    config_type: ClassVar[type[Any]]
    head_type: ClassVar[type[Head[Any, Any]]]

    def __init__(self, info: TaskInfo) -> None:
        """Make the task of a registry entry."""
        self.info = info

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The name that `elmox fit` takes."""
        return self.info.name

    @property
    def metric(self) -> str:
        """The score that selects the best epoch; higher is better."""
        return self.info.metric

    @abstractmethod
    def read(self, path: Path, settings: Any = None) -> list[Example]:
        """Read the labeled examples of a file.

        Args:
            path: the file.
            settings: the parsed `[head]` of the recipe; None for the defaults.

        Raises:
            ElmoxError: the file is malformed, of another kind, or has no examples.
        """

    @abstractmethod
    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> Example:
        """Return an example without labels.

        Args:
            values: an input with the keys that `input_format` names, its texts tokenized; under
                `strings`, the named texts that were strings.
            settings: the parsed `[head]` of the recipe; None for the defaults.

        Raises:
            ElmoxError: a value that only this task reads is missing or malformed.
        """

    @abstractmethod
    def sentences(self, example: Example) -> Sequence[Sentence]:
        """Return the tokenized sentences that the model reads for an example."""

    @abstractmethod
    def configure(self, train: Sequence[Example], settings: Any) -> Any:
        """Return the network's configuration, an instance of `config_type`.

        Args:
            train: the training examples, which determine the labels.
            settings: an instance of `settings_type`.
        """

    @abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Return the official scores: percentages as floats, numbers of examples as ints."""

    @abstractmethod
    def format_prediction(
        self, example: Example, prediction: Prediction, offsets: Mapping[str, Any]
    ) -> TaskOutput:
        """Return a prediction in terms of its text.

        Args:
            example: what was predicted.
            prediction: the network's.
            offsets: for each key of the input whose text was a string, the `Offsets` of its tokens
                (of a document: a list of them, one per sentence).
        """

    def input_format_for(self, settings: Any) -> InputFormat:
        """Return `input_format`, unless it depends on the settings."""
        return self.input_format

    def tokenizer_for(self, settings: Any) -> str | None:
        """Return `tokenizer`, unless it depends on the settings."""
        return self.tokenizer

    def labels(self, config: Mapping[str, Any]) -> Sequence[str]:
        """Return the labels that a configured network predicts; none if it has no fixed set."""
        labels: Sequence[str] = config.get("labels", ())
        return labels

    def empty_prediction(self) -> Prediction | None:
        """Return the prediction for an example without any word, which the network cannot read.

        None, the default, is for networks that can.
        """
        return None

    def pieces(self, example: Example) -> Sequence[Example]:
        """Return the parts of an example that are predicted independently; normally all in one."""
        return (example,)

    def joined(self, predictions: Sequence[Prediction]) -> Prediction:
        """Return the prediction for an example from those for its several pieces."""
        raise NotImplementedError

    def training_examples(
        self, examples: Sequence[Example], settings: Any, log: Log
    ) -> Sequence[Example]:
        """Return the examples to train on: `examples` itself unless a task overrides this.

        Args:
            examples: those of the training file, or a share of them.
            settings: an instance of `settings_type`.
            log: called with a line for what gets lost, if that matters.

        Raises:
            NothingToLearn: nothing is left.
        """
        return examples

    def check_scorable(self, examples: Sequence[Example], settings: Any, source: str) -> None:
        """Raise an `ElmoxError` if none of the examples would be scored.

        Called before anything is fitted or predicted. The default accepts all examples.

        Args:
            examples: those of a file.
            settings: an instance of `settings_type`.
            source: the name of the file or part, for the message.
        """

    def parse_settings(self, head: Mapping[str, Any]) -> Any:
        """Check a recipe's `[head]` and return it as an instance of `settings_type`."""
        return validated(self.settings_type, head, "the recipe's [head]")

    def build_head(self, config: Mapping[str, Any], widths: Widths) -> Head[Example, Prediction]:
        """Return the network with fresh weights, for embedded vectors of these widths."""
        return self.head_type(validated(self.config_type, config, f"the {self.name} model"), widths)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if is_dataclass(value):
        values = ((field, getattr(value, field.name)) for field in fields(value))
        return {
            field.name: _plain(item)
            for field, item in values
            if item is not None or field.default is not None
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
