"""Questions about texts, and answers that are passages of them, counted in words.

Corpora count in characters, and answers are scored as the characters from the first word of a
passage to its last: every word has its offsets in the text.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import NamedTuple

from elmox.tasks.qa.questions import Answer, Question
from elmox.text.offsets import joined_offsets, token_offsets
from elmox.text.tokenize import get_tokenizer

TOKENIZER = "treebank"  # the corpora give strings
NO_WORDS = "?"  # is read if a text is blank

Places = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TextQuestion:
    """A question about a text, tokenized. Neither is empty.

    Attributes:
        question, context: the words; in training perhaps not all of the text.
        characters: of each word of the context, its start and end in the source's.
        source: the question as the corpus has it.
        answers: first and last word of each answer inside the context, without duplicates.
    """

    question: tuple[str, ...]
    context: tuple[str, ...]
    characters: Places
    source: Question
    answers: Places = ()


class Passage(NamedTuple):
    """A predicted answer: the likeliest passage.

    Attributes:
        start, end: the first word, and the one after the last.
        probability: of this passage.
        no_answer: the probability that there is none; None if the model always predicts one.
    """

    start: int
    end: int
    probability: float
    no_answer: float | None = None

    @property
    def is_answer(self) -> bool:
        """Return whether this passage is the prediction, rather than no answer."""
        return self.no_answer is None or self.no_answer <= 0.5

    def text(self, example: TextQuestion) -> str:
        """Return the passage as it is in the source; empty if there is no answer."""
        if not self.is_answer:
            return ""
        start, end = example.characters[self.start][0], example.characters[self.end - 1][1]
        return example.source.context[start:end]


def tokenized_questions(questions: Iterable[Question]) -> list[TextQuestion]:
    """Tokenize the questions of a corpus."""
    tokenized = cache(_tokenized)  # many questions are about the same text
    tokenized_examples = []
    for source in questions:
        context, characters = tokenized(source.context)
        spans = (_words_of(answer, characters) for answer in source.answers)
        answers = tuple(dict.fromkeys(span for span in spans if span is not None))
        question = tokenized(source.question)[0]
        tokenized_examples.append(TextQuestion(question, context, characters, source, answers))
    return tokenized_examples


def unlabeled_question(
    question: tuple[str, ...], context: tuple[str, ...], text: str | None = None
) -> TextQuestion:
    """Return a question without gold answers.

    Args:
        question, context: words; if there are none, `NO_WORDS` is read.
        text: the text of the context; None for its words joined by blanks.
    """
    source = Question("", " ".join(context) if text is None else text, " ".join(question), ())
    return TextQuestion(question or (NO_WORDS,), *_placed(text, context), source)


def cropped(example: TextQuestion, longest: int) -> TextQuestion:
    """Crop an example's text to at most `longest` words that include the first answer.

    The position of the answer is random, seeded by the id of the question: if it were always in
    the middle, the model would learn to look there. A longer answer is not cut.
    """
    first, last = example.answers[0] if example.answers else (len(example.context), -1)
    size = max(longest, last + 1 - first)
    if size >= len(example.context):
        return example
    earliest, latest = max(0, last + 1 - size), min(first, len(example.context) - size)
    start = Random(example.source.id).randint(earliest, latest)
    return replace(
        example,
        context=example.context[start : start + size],
        characters=example.characters[start : start + size],
        answers=tuple(
            (first - start, last - start)
            for first, last in example.answers
            if start <= first and last < start + size
        ),
    )


def _tokenized(text: str) -> tuple[tuple[str, ...], Places]:
    """Return the words of a text with their offsets."""
    return _placed(text, tuple(get_tokenizer(TOKENIZER)(text)))


def _placed(text: str | None, words: tuple[str, ...]) -> tuple[tuple[str, ...], Places]:
    """Return the words of a text, or `NO_WORDS` if there are none, with their offsets."""
    if not words:
        return (NO_WORDS,), ((0, 0),)
    offsets = joined_offsets(words) if text is None else token_offsets(text, words)
    return words, tuple(offsets)


def _words_of(answer: Answer, characters: Places) -> tuple[int, int] | None:
    """Return the first and the last word that an answer overlaps; None if there are none."""
    start, end = answer.start, answer.start + len(answer.text)
    words = [
        index for index, offsets in enumerate(characters) if offsets[1] > start and offsets[0] < end
    ]
    return (words[0], words[-1]) if words else None
