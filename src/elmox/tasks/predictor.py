"""A fitted model in use: predictions for unlabeled text, and scores on labeled files."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, overload

from elmox.elmo import Elmo
from elmox.errors import Argument, ArgumentError, ElmoxError
from elmox.inference.device import resolve_device
from elmox.tasks.base import TaskOutput
from elmox.tasks.data.batches import TaskData, distinct_sentences, predict_all
from elmox.tasks.data.input_formats import TokenizedInput
from elmox.tasks.model import TaskModel, read_model
from elmox.tasks.ready import bilm_of, find_tagger
from elmox.text.batches import in_chunks
from elmox.text.inputs import described
from elmox.text.lines import Tokenize
from elmox.text.tokenize import get_tokenizer

WORDS_AT_ONCE = 2**15  # whose layers are held in memory

Item: TypeAlias = str | Sequence[str] | Mapping[str, Any]  # a text, its tokens, or named texts


@dataclass(frozen=True)
class TaskInput:
    """One input, as the task's model reads it.

    Attributes:
        example: the task's, without labels.
        offsets: of the tokens in texts that were strings; see `TokenizedInput`.
        extra: other keys of the input, which `elmox tag` copies to the output.
    """

    example: Any
    offsets: Mapping[str, Any]
    extra: dict[str, Any]


class TaskPredictor:
    """A fitted model with its biLM.

        tagger = TaskPredictor.from_pretrained("runs/ner/seed-0/model")
        tagger.predict("Ada Lovelace lived in London.").spans

    Attributes:
        task: what it predicts.
        input_format: the keys of its inputs.
        tokenize: how it splits text into tokens: as the task's files were split, otherwise as its
            biLM does.
    """

    def __init__(self, model: TaskModel, elmo: Elmo | None) -> None:
        """Join a model and its biLM, which are on the same device.

        Args:
            model: the task's.
            elmo: the biLM whose layers it reads; None if the model contains its biLM or has none.
        """
        self.model, self.elmo = model.eval(), elmo
        self.task = model.task
        self._settings = self.task.parse_settings(model.description.recipe.head)
        self.input_format = self.task.input_format_for(self._settings)
        tokenizer = self.task.tokenizer_for(self._settings)
        reader = elmo if model.finetuned is None else model.finetuned.elmo
        self.tokenize: Tokenize
        if tokenizer is None and reader is not None:
            self.tokenize = reader.tokenize
        else:  # as the text it was fitted on; without a biLM, any tokenizer is a guess
            self.tokenize = get_tokenizer(tokenizer or "treebank")

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, elmo: str | Path | None = None, device: str | None = None
    ) -> "TaskPredictor":
        """Load a model that `elmox.fit` or `elmox fit` has made, or a ready tagger.

        Args:
            path: its directory; `MODEL/TASK`, such as `english-small/ner`, for a ready tagger of an
                installed model; or `ner` for that of the model that comes with elmox.
            elmo: path to its biLM, if it has moved since the model was fitted.
            device: `cpu`, `cuda`; by default a GPU if there is one.
        """
        torch_device = resolve_device(device)
        path = find_tagger(path)
        model = read_model(path).to(torch_device)
        recipe, used = model.description.recipe, model.description.elmo
        if used is None or not recipe.elmo.is_frozen:
            if elmo is not None:
                how = "without ELMo" if used is None else "with a biLM that is saved with it"
                raise ArgumentError(
                    "{} was fitted {}: leave out {}", path, how, Argument("elmo", str(elmo))
                )
            return cls(model, None)
        elmo = elmo or bilm_of(path) or recipe.elmo.model
        bilm = Elmo.from_pretrained(elmo, device=str(torch_device))
        if bilm.digest() != used.digest:
            raise ArgumentError(
                "{} was fitted with another biLM than {}: give the one it was fitted with as {}",
                path,
                elmo,
                Argument("elmo"),
            )
        return cls(model, bilm)

    def __repr__(self) -> str:
        description = self.model.description
        labels = _listed(self.task.labels(description.head))
        elmo, device = description.recipe.elmo.model, str(self.model.device)
        return f"TaskPredictor({self.task.name}{labels}, elmo={elmo!r}, device={device!r})"

    @overload
    def predict(self, texts: str | Mapping[str, Any]) -> TaskOutput: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, texts: Iterable[Item]) -> list[TaskOutput]: ...

    def predict(
        self, texts: str | Mapping[str, Any] | Iterable[Item]
    ) -> TaskOutput | list[TaskOutput]:
        """Return a prediction for each text.

        Args:
            texts: one text or several. A text is a string, which the tokenizer splits; a list of
                tokens; or a mapping with the keys that `elmox tag` expects in JSON lines. A string
                is one sentence, or one document if the task is about documents; for running text
                of several sentences use `predict_document`.

        Returns:
            One `TaskOutput` per text, in order; a single one for a single string or mapping. Its
            class depends on the task: see the task's page in the docs.
        """
        if isinstance(texts, str | Mapping):
            return self.predict_inputs([self._input(texts)])[0]
        if isinstance(texts, bytes | bytearray) or not isinstance(texts, Iterable):
            raise ElmoxError(
                f"texts is {described(texts)}: expected a string, a list of strings or token "
                "lists, or mappings"
            )
        inputs = []
        for index, text in enumerate(texts):
            try:
                inputs.append(self._input(text))
            except ElmoxError as error:
                raise ElmoxError(f"texts[{index}]: {error}") from None
        return self.predict_inputs(inputs)

    def predict_document(self, text: str) -> list[TaskOutput]:
        """Return the predictions for running text: one per sentence, or one for the document."""
        return self.predict_inputs(self.inputs({"text": text}))

    def predict_json(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what `elmox tag` prints for a JSON line: an object per sentence of a `text`.

        Other keys of the line are copied to each of them.
        """
        inputs = self.inputs(values)
        outputs = self.predict_inputs(inputs)
        return [one.extra | output.to_dict() for one, output in zip(inputs, outputs, strict=True)]

    def inputs(self, values: Mapping[str, Any]) -> list[TaskInput]:
        """Return the inputs of a JSON line of `elmox tag`, one for each sentence of a `text`.

        Raises:
            ElmoxError: a key is missing or its value is malformed.
        """
        split = self.input_format.split_mapping(values, self.tokenize)
        return [self.prepared(tokenized) for tokenized in split]

    def prepared(self, tokenized: TokenizedInput) -> TaskInput:
        """Return a tokenized input as the task's model reads it."""
        values, text_keys = tokenized.values, self.input_format.text_keys
        keys = {*text_keys, *self.input_format.alternative_keys}
        extra = {key: value for key, value in values.items() if key not in keys}
        if self.input_format.keeps_text:
            extra |= {key: tokenized.strings.get(key, values[key]) for key in text_keys}
        with_strings = {**values, "strings": tokenized.strings}
        example = self.task.example_from_input(with_strings, self._settings)
        return TaskInput(example, tokenized.offsets, extra)

    def predict_inputs(self, inputs: Sequence[TaskInput]) -> list[TaskOutput]:
        """Return a prediction for each input."""
        predictions = self.predict_examples([one.example for one in inputs])
        return [
            self.task.format_prediction(one.example, prediction, one.offsets)
            for one, prediction in zip(inputs, predictions, strict=True)
        ]

    def predict_examples(self, examples: Sequence[Any]) -> list[Any]:
        """Return the network's prediction for each of the task's examples; labels are not used."""
        split = [self.task.pieces(example) for example in examples]
        if any(len(pieces) > 1 for pieces in split):
            self._warn_of_pieces(split)
        predictions = iter(self._predict_pieces([piece for pieces in split for piece in pieces]))
        together = [[next(predictions) for _ in pieces] for pieces in split]
        return [each[0] if len(each) == 1 else self.task.joined(each) for each in together]

    def score(self, path: str | Path) -> dict[str, float]:
        """Return the task's official scores on a file of labeled data."""
        examples = self.task.read(Path(path), self._settings)
        self.task.check_scorable(examples, self._settings, str(path))
        return self.task.score(examples, self.predict_examples(examples))

    def _input(self, text: Item) -> TaskInput:
        """Return one input, however it is given."""
        if not isinstance(text, Mapping):
            text = {"text" if isinstance(text, str) else "tokens": text}
        return self.prepared(self.input_format.from_mapping(text, self.tokenize))

    def _warn_of_pieces(self, split: Sequence[Sequence[Any]]) -> None:
        cut = [sum(map(self._num_words, pieces)) for pieces in split if len(pieces) > 1]
        number = "a sentence" if len(cut) == 1 else f"{len(cut)} sentences, the longest"
        warnings.warn(
            f"{number} of {max(cut):,} tokens: read in pieces that do not see each other, split "
            "the text into sentences",
            stacklevel=5,
        )

    def _predict_pieces(self, examples: Sequence[Any]) -> list[Any]:
        """Return predictions for examples that may be empty."""
        empty = self.task.empty_prediction()
        if empty is None:
            return self._predict(examples)
        predictions = iter(self._predict([e for e in examples if self._num_words(e)]))
        return [next(predictions) if self._num_words(e) else empty for e in examples]

    def _predict(self, examples: Sequence[Any]) -> list[Any]:
        """Return predictions for examples that the network can read."""
        predictions: list[Any] = []
        for chunk in in_chunks(examples, self._num_words, WORDS_AT_ONCE):
            sentences = [list(sentence) for sentence in distinct_sentences(self.task, chunk)]
            layers = None if self.elmo is None else self.elmo.encode_tokens(sentences, layers="all")
            predictions += predict_all(self.model, TaskData(self.model, chunk, layers))
        return predictions

    def _num_words(self, example: Any) -> int:
        return sum(map(len, self.task.sentences(example)))


def _listed(labels: Sequence[str], most: int = 6) -> str:
    """Return the first labels and the number of the others, as part of a repr."""
    others = f", and {len(labels) - most} others" if len(labels) > most else ""
    return f", labels=[{', '.join(labels[:most])}{others}]" if labels else ""
