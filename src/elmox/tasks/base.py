"""What a task is: a reader, a head and a metric. One loop (`fit.py`) fits them all."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

from elmox.errors import ElmoxError
from elmox.io.progress import Log
from elmox.tasks.data.questions import Questions
from elmox.tasks.data.texts import Sentence
from elmox.tasks.nn.embedder import Embedded, Widths

Example = TypeVar("Example")
Scored = TypeVar("Scored", contravariant=True)
Answer = TypeVar("Answer", contravariant=True)


class Head(Protocol):
    """The task's own network, on top of embedded sentences; an `nn.Module`."""

    def loss(self, texts: Embedded, examples: Sequence[Any]) -> Tensor:
        """The mean loss of a batch: ()."""
        ...

    def answers(self, texts: Embedded, examples: Sequence[Any]) -> list[Any]:
        """What it says about each example."""
        ...


class Task(Protocol[Example, Answer]):
    """A task.

    Attributes:
        name: as `elmox fit NAME` takes it.
        metric: which of the scores counts; the higher, the better.
        asks: what it is asked: sentences, documents, or several texts by their names. All that
            reads questions goes by that.
        tokenizer: that splits the strings of its files; None where files have tokens.
    """

    name: str
    metric: str
    asks: Questions
    tokenizer: str | None

    def read(self, path: Path) -> list[Example]:
        """Labeled examples of a file. Raises `ElmoxError` where it is not right, or empty."""
        ...

    def unlabeled(self, values: Mapping[str, Any]) -> Example:
        """An example of text alone, to be answered.

        Args:
            values: a JSON line's, with what `asks.keys` names, as `asks.split` gives it; and
                `strings`, what was given as a string, by its key. Raises `ElmoxError` where
                anything else that the task needs is not right.
        """
        ...

    def without_words(self) -> Any:
        """The answer where no sentence of an example has a word, which its head cannot read.

        None where the head reads that too.
        """
        ...

    def sentences(self, example: Example) -> Sequence[Sentence]:
        """The tokenized sentences that the model reads for an example."""
        ...

    def describe(self, train: Sequence[Example], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The head's configuration: its settings, and what the training data decides (labels).

        Plain values, as JSON knows them: they are stored with a fitted model.
        """
        ...

    def head(self, description: Mapping[str, Any], widths: Widths) -> nn.Module:
        """A `Head` with fresh weights, for embedded vectors of these widths."""
        ...

    def score(self, examples: Sequence[Example], answers: Sequence[Answer]) -> dict[str, float]:
        """The official scores, floats in percent; what is an int is a number of examples."""
        ...

    def show(self, example: Example, answer: Answer) -> dict[str, Any]:
        """An answer for people and programs, as `elmox tag` prints it."""
        ...


@runtime_checkable
class LearnsFromOthers(Protocol[Example]):
    """A task that learns from other examples than its files have: phrases, or parts of texts."""

    def training_examples(
        self,
        examples: Sequence[Example],
        settings: Mapping[str, Any],
        log: Log = lambda message: None,
    ) -> list[Example]:
        """What is learned from.

        Args:
            examples: of the training file, or a share of them.
            settings: the recipe's, under `[head]`.
            log: told what of the examples is lost by that, where it is worth a line.
        """
        ...


@runtime_checkable
class ScoresSome(Protocol[Scored]):
    """A task whose scores are not over all examples of a file, and so perhaps over none."""

    def check_scored(self, examples: Sequence[Scored], settings: Mapping[str, Any]) -> None:
        """Raise an `ElmoxError` where none of the examples would be scored.

        Args:
            examples: of a file.
            settings: the recipe's, under `[head]`.
        """
        ...


def check_scored(
    task: Task[Any, Any], examples: Sequence[Any], settings: Mapping[str, Any], what: str
) -> None:
    """Refuse examples that a model is to be scored on, where none of them would be.

    Better before a model is fitted, or asked, than after.

    Args:
        task: that scores them.
        examples: of a file.
        settings: the recipe's, under `[head]`.
        what: the examples are called.
    """
    if isinstance(task, ScoresSome):
        try:
            task.check_scored(examples, settings)
        except ElmoxError as error:
            raise ElmoxError(f"{what}: {error}") from None
