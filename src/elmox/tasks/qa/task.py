"""Question answering: the passage of a text that answers a question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmox.errors import ElmoxError, NothingToLearn
from elmox.io.progress import Log
from elmox.io.text_files import text_suffix
from elmox.tasks.base import Offsets, Task, TaskOutput, characters
from elmox.tasks.data.input_formats import NamedTextsInput
from elmox.tasks.data.texts import Sentence
from elmox.tasks.qa.metrics import score_squad, score_squad2
from elmox.tasks.qa.network import AnsweringConfig, AnsweringSettings, Bidaf
from elmox.tasks.qa.passages import (
    TOKENIZER,
    Passage,
    TextQuestion,
    cropped,
    tokenized_questions,
    unlabeled_question,
)
from elmox.tasks.qa.questions import Question
from elmox.tasks.qa.squad import read_squad
from elmox.tasks.qa.subjqa import read_subjqa


@dataclass(frozen=True)
class AnswerOutput(TaskOutput):
    """A question with its answer.

    Attributes:
        question, context: their words.
        answer: the passage as it is in the context; None if the model predicts that there is none.
        probability: of the passage, or of there being none.
        start, end: the passage's first token in the context, and the one after its last.
        start_char, end_char: the same in characters, if the context was a string.
        offsets: for each of `question` and `context` that was a string, the first character of each
            token and the one after its last.
    """

    question: tuple[str, ...]
    context: tuple[str, ...]
    answer: str | None
    probability: float
    start: int | None = None
    end: int | None = None
    start_char: int | None = None
    end_char: int | None = None
    offsets: Mapping[str, Offsets] | None = None


class QuestionAnswering(Task[TextQuestion, Passage]):
    """The passage of a text that answers a question.

    Long texts are cut for training; questions without an answer are trained on and scored only if
    the model predicts that too.
    """

    input_format = NamedTextsInput("question", "context")
    tokenizer = TOKENIZER
    settings_type = AnsweringSettings
    config_type = AnsweringConfig
    head_type = Bidaf

    def read(self, path: Path, settings: Any = None) -> list[TextQuestion]:
        """Read SubjQA if the file is called .csv (.gz, .xz), otherwise SQuAD's JSON, 1.1 or 2.0."""
        is_csv = text_suffix(path) == ".csv"
        return tokenized_questions(read_subjqa(path) if is_csv else read_squad(path))

    def example_from_input(self, values: Mapping[str, Any], settings: Any = None) -> TextQuestion:
        """Return a question without an answer."""
        text = values.get("strings", {}).get("context")
        return unlabeled_question(tuple(values["question"]), tuple(values["context"]), text)

    def sentences(self, example: TextQuestion) -> Sequence[Sentence]:
        """Return question and text."""
        return (example.question, example.context)

    def configure(
        self, train: Sequence[TextQuestion], settings: AnsweringSettings
    ) -> AnsweringConfig:
        """Return the settings, and the number of training questions that they leave out."""
        left_out = sum(not _is_trainable(example, settings) for example in train)
        return AnsweringConfig(settings, left_out)

    def training_examples(
        self, examples: Sequence[TextQuestion], settings: AnsweringSettings, log: Log
    ) -> list[TextQuestion]:
        """Return the questions that the model can answer, their texts cut."""
        longest = settings.longest_context
        trainable = [cropped(e, longest) for e in examples if _is_trainable(e, settings)]
        if not trainable:
            allowed = "" if settings.no_answer else ", or head.no_answer=true, which allows that"
            raise NothingToLearn(
                "nothing to learn from, no question has an answer of whole words: expected other "
                f"data{allowed}"
            )
        return trainable

    def check_scorable(
        self, examples: Sequence[TextQuestion], settings: AnsweringSettings, source: str
    ) -> None:
        """Refuse files without any answer, if the model always answers."""
        if not settings.no_answer:
            _answerable(examples, source)

    def score(
        self, examples: Sequence[TextQuestion], predictions: Sequence[Passage]
    ) -> dict[str, float]:
        """Return F1 and exact match, as SQuAD's scripts compute them.

        A model that always answers is scored as in version 1.1, over the questions with an answer;
        `left_out` is the number of the others. A model that need not answer is scored as in version
        2.0: over all questions, over those with an answer, and over those without, for which F1 is
        the same as exact match.
        """
        pairs = zip(examples, predictions, strict=True)
        answers = {example.source.id: prediction.text(example) for example, prediction in pairs}
        if any(prediction.no_answer is None for prediction in predictions):
            answerable = _answerable(examples, "the questions")
            scores = score_squad(answerable, answers)
            left_out = len(examples) - len(answerable)
            return {"f1": scores.f1, "exact": scores.exact, "left_out": left_out}
        questions = [example.source for example in examples]
        both = score_squad2(questions, answers)
        by_name = {"f1": both.overall.f1, "exact": both.overall.exact}
        if any(question.answers for question in questions):
            by_name["has_answer_f1"] = both.has_answer.f1
            by_name["has_answer_exact"] = both.has_answer.exact
        if not all(question.answers for question in questions):
            by_name["no_answer_exact"] = both.no_answer.exact
        return by_name

    def format_prediction(
        self, example: TextQuestion, prediction: Passage, offsets: Mapping[str, Any]
    ) -> AnswerOutput:
        """Return the words, the answer's text and position, and its probability."""
        # The word that a blank text is read as is not a token of it.
        known = {key: value or ((0, 0),) for key, value in offsets.items()}
        if prediction.no_answer is not None and not prediction.is_answer:
            return AnswerOutput(
                example.question,
                example.context,
                answer=None,
                probability=prediction.no_answer,
                offsets=known or None,
            )
        start, end = prediction.start, prediction.end
        start_char, end_char = characters(start, end, known.get("context"))
        return AnswerOutput(
            example.question,
            example.context,
            answer=prediction.text(example),
            probability=prediction.probability,
            start=start,
            end=end,
            start_char=start_char,
            end_char=end_char,
            offsets=known or None,
        )


def _answerable(examples: Sequence[TextQuestion], source: str) -> list[Question]:
    """Return the questions that have an answer; refuse examples without any."""
    answerable = [example.source for example in examples if example.source.answers]
    if not answerable:
        raise ElmoxError(
            f"{source}: nothing to score, none of {len(examples):,} questions has an answer: "
            "expected some, or a model fitted with head.no_answer=true"
        )
    return answerable


def _is_trainable(example: TextQuestion, settings: AnsweringSettings) -> bool:
    """Return whether the model could predict the gold answer."""
    return bool(example.answers) or (settings.no_answer and not example.source.answers)
