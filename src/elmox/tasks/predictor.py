"""A fitted model at work: on text without labels, and scored on text with them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.elmo import Elmo
from elmox.errors import ElmoxError
from elmox.inference.device import resolve_device
from elmox.tasks.base import check_scored
from elmox.tasks.data.batches import TaskData, answers_to, distinct_sentences
from elmox.tasks.data.texts import Sentence
from elmox.tasks.model import TaskModel, read_model
from elmox.text.batches import in_chunks
from elmox.text.tokenize import get_tokenizer

WORDS_AT_ONCE = 2**15  # whose layers are held in memory


@dataclass(frozen=True)
class Asked:
    """One question, as the task's model reads it.

    Attributes:
        others: what came with its texts, and goes back with the answer.
        example: the task's.
    """

    others: dict[str, Any]
    example: Any


class TaskPredictor:
    """A fitted model with its biLM.

        tagger = TaskPredictor.load("runs/ner/seed-0/model")
        tagger.tag([["Ada", "Lovelace", "lived", "in", "London"]])

    Attributes:
        task: what it does.
        tokenize: how it splits text: as its task's files were split, else as its biLM does.
    """

    def __init__(self, model: TaskModel, elmo: Elmo | None) -> None:
        """Put a model and its biLM together; both on the same device.

        Args:
            model: the task's.
            elmo: the biLM whose layers it reads; None where it has one of its own, or none.
        """
        self.model, self.elmo = model.eval(), elmo
        self.task = model.task
        reader = elmo if model.finetuned is None else model.finetuned.elmo
        if self.task.tokenizer is not None:  # as the text that it was fitted on
            self.tokenize = get_tokenizer(self.task.tokenizer)
        else:  # without a biLM there is none whose tokenizer would be the right one
            self.tokenize = get_tokenizer("treebank") if reader is None else reader.tokenize

    @classmethod
    def load(
        cls, path: str | Path, *, elmo: str | Path | None = None, device: str | None = None
    ) -> "TaskPredictor":
        """Load a model that `elmox fit` has made.

        Args:
            path: its directory.
            elmo: where its biLM lies now, if not where it lay when the model was fitted.
            device: cpu, cuda; a GPU if there is one by default.
        """
        where = resolve_device(device)
        model = read_model(Path(path)).to(where)
        recipe, wanted = model.description.recipe, model.description.elmo
        if wanted is None or not recipe.elmo.is_frozen:
            if elmo is not None:
                has = "without ELMo" if wanted is None else "with a biLM that it holds itself"
                raise ElmoxError(f"{path} was fitted {has}: leave {elmo} out")
            return cls(model, None)
        found = Elmo.from_pretrained(elmo or recipe.elmo.model, device=str(where))
        if found.digest() != wanted.digest:
            raise ElmoxError(
                f"{path} was fitted with another biLM than {elmo or recipe.elmo.model}: give the "
                "one it was fitted with"
            )
        return cls(model, found)

    def tag(self, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
        """What the model says about each sentence."""
        return self.ask([{"tokens": sentence} for sentence in sentences])

    def ask(self, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the model says about each question, as `elmox tag` prints it.

        Args:
            questions: with the texts that the task asks for (`questions.py`), as tokens or as
                strings, which the tokenizer splits. Where the task is about sentences, each
                sentence of a `text` has an answer of its own. Other keys come back with the answer.
        """
        return self.shown([own for question in questions for own in self.asked(question)])

    def asked(self, question: Mapping[str, Any]) -> list[Asked]:
        """What a question asks, ready to be answered; an `ElmoxError` where it cannot be."""
        asks = self.task.asks
        texts = {*asks.keys, *asks.instead}
        others = {key: value for key, value in question.items() if key not in texts}
        return [
            Asked(others, self.task.unlabeled(self._tokenized(own)))
            for own in asks.of_object(question)
        ]

    def shown(self, asked: Sequence[Asked]) -> list[dict[str, Any]]:
        """The answers, as `elmox tag` prints them."""
        found = self.answers([own.example for own in asked])
        return [
            own.others | self.task.show(own.example, answer)
            for own, answer in zip(asked, found, strict=True)
        ]

    def _tokenized(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The same with its texts split into tokens."""
        asks = self.task.asks
        values = dict(question)
        values["strings"] = {key: own for key, own in question.items() if isinstance(own, str)}
        for key in asks.keys:
            if key not in values:
                wanted = ", ".join(asks.keys)
                raise ElmoxError(f"{self.task.name} asks for {wanted}: {key} is missing")
            values[key] = asks.split(key, values[key], self.tokenize)
        return values

    def answers(self, examples: Sequence[Any]) -> list[Any]:
        """What the model says about each example, whose labels it does not look at."""
        nothing = self.task.without_words()
        if nothing is None:
            return self._read(examples)
        found = iter(self._read([own for own in examples if self._num_words(own)]))
        return [next(found) if self._num_words(own) else nothing for own in examples]

    def _read(self, examples: Sequence[Any]) -> list[Any]:
        """The same, of examples that the model can read."""
        found: list[Any] = []
        for chunk in in_chunks(examples, self._num_words, WORDS_AT_ONCE):
            sentences = [list(own) for own in distinct_sentences(self.task, chunk)]
            elmo = self.elmo
            layers = None if elmo is None else elmo.encode_tokens(sentences, layers="all")
            found += answers_to(self.model, TaskData(self.model, chunk, layers))
        return found

    def _num_words(self, example: Any) -> int:
        return sum(map(len, self.task.sentences(example)))

    def score(self, path: Path) -> dict[str, float]:
        """The task's official scores on a file of labeled data."""
        examples = self.task.read(path)
        check_scored(self.task, examples, self.model.description.recipe.head, str(path))
        return self.task.score(examples, self.answers(examples))
