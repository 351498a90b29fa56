"""A fitted model at work: on text without labels, and scored on text with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmox.bulk.embed import model_digest
from elmox.elmo import Elmo, chosen_device
from elmox.errors import ElmoxError
from elmox.tasks.data import TaskData, answers_to
from elmox.tasks.model import TaskModel, read_model
from elmox.tasks.texts import Sentence
from elmox.text.tokenize import get_tokenizer

EXAMPLES_AT_ONCE = 1000  # whose layers are held in memory


class Fitted:
    """A fitted model with its biLM.

        tagger = Fitted.load("runs/ner/seed-0/model")
        tagger.tag([["Ada", "Lovelace", "lived", "in", "London"]])

    Attributes:
        task: what it does.
        tokenize: how it splits text: as its biLM does.
    """

    def __init__(self, model: TaskModel, elmo: Elmo | None) -> None:
        """Put a model and its biLM together; both on the same device."""
        self.model, self.elmo = model.eval(), elmo
        self.task = model.task
        # Without a biLM there is none whose tokeniser would be the right one.
        self.tokenize = get_tokenizer("treebank") if elmo is None else elmo.tokenize

    @classmethod
    def load(
        cls, path: str | Path, *, elmo: str | Path | None = None, device: str | None = None
    ) -> "Fitted":
        """Load a model that `elmox fit` has made.

        Args:
            path: its directory.
            elmo: where its biLM lies now, if not where it lay when the model was fitted.
            device: cpu, cuda; a GPU if there is one by default.
        """
        where = chosen_device(device)
        model = read_model(Path(path)).to(where)
        recipe, wanted = model.description.recipe, model.description.elmo
        if wanted is None:
            if elmo is not None:
                raise ElmoxError(f"{path} was fitted without ELMo: leave {elmo} out")
            return cls(model, None)
        found = Elmo.from_pretrained(elmo or recipe.elmo.model, device=str(where))
        if model_digest(found) != wanted.digest:
            raise ElmoxError(
                f"{path} was fitted with another biLM than {elmo or recipe.elmo.model}: give the "
                "one it was fitted with"
            )
        return cls(model, found)

    def tag(self, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
        """What the model says about each sentence; nothing about an empty one."""
        return self.ask([{"tokens": sentence} for sentence in sentences])

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the model says about each question, as `elmox tag` prints it.

        Args:
            questions: with the texts that the task asks for, as tokens or as strings, which the
                tokeniser splits. Other keys come back with the answer; where one of the texts is
                empty, they are all that comes back.
        """
        tokenised = [self._tokenised(question) for question in questions]
        chosen = [number for number, own in enumerate(tokenised) if own is not None]
        examples = [self.task.unlabelled(tokenised[number] or {}) for number in chosen]
        texts = {*self.task.asks, "text"}
        answers = [{k: v for k, v in own.items() if k not in texts} for own in questions]
        found = self.answers(examples)
        for number, example, answer in zip(chosen, examples, found, strict=True):
            answers[number] |= self.task.show(example, answer)
        return answers

    def checked(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """A question that can be asked; an `ElmoxError` where it cannot."""
        values = self._tokenised(question)
        if values is not None:
            self.task.unlabelled(values)
        return dict(question)

    def _tokenised(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """The same with its texts split into tokens; None where one of them is empty."""
        values = dict(question)
        if "tokens" not in values and "text" in values:
            values["tokens"] = values["text"]
        for key in self.task.asks:
            if key not in values:
                wanted = ", ".join(self.task.asks)
                raise ElmoxError(f"{self.task.name} asks for {wanted}: {key} is missing")
            text = values[key]
            if isinstance(text, str):
                values[key] = self.tokenize(text)
            elif not isinstance(text, list | tuple) or not all(isinstance(t, str) for t in text):
                raise ElmoxError(f"{key} is {text!r:.60}, expected a text or a list of tokens")
        return values if all(values[key] for key in self.task.asks) else None

    def answers(self, examples: Sequence[Any]) -> list[Any]:
        """What the model says about each example, whose labels it does not look at."""
        found: list[Any] = []
        for start in range(0, len(examples), EXAMPLES_AT_ONCE):
            chunk = examples[start : start + EXAMPLES_AT_ONCE]
            sentences = [list(s) for example in chunk for s in self.task.sentences(example)]
            elmo = self.elmo
            layers = None if elmo is None else elmo.encode_tokens(sentences, layers="all")
            found += answers_to(self.model, TaskData(self.model, chunk, layers))
        return found

    def score(self, path: Path) -> dict[str, float]:
        """The task's official scores on a file of labelled data."""
        examples = self.task.read(path)
        return self.task.score(examples, self.answers(examples))
