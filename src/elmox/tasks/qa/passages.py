"""Questions about texts, and answers that are passages of them, counted in words.

Corpora count in characters, and answers are scored as the characters from the first word of a
passage to its last: every word knows where it stands in the text.
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
NO_WORDS = "?"  # is read where a text is blank

Places = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TextQuestion:
    """A question about a text, tokenized. Neither is empty.

    Attributes:
        question, context: the words; in training perhaps not all of the text.
        characters: of each word of the context, where it starts and ends in the source's.
        source: the question as the corpus has it.
        answers: first and last word of each answer that lies in the context, each of them once.
    """

    question: tuple[str, ...]
    context: tuple[str, ...]
    characters: Places
    source: Question
    answers: Places = ()


class Passage(NamedTuple):
    """What is answered: the likeliest passage.

    Attributes:
        start, end: the first word, and the one after the last.
        probability: of this passage.
        no_answer: the probability that there is none; None where the model always answers.
    """

    start: int
    end: int
    probability: float
    no_answer: float | None = None

    @property
    def is_answer(self) -> bool:
        """Whether this is said, rather than that there is no answer."""
        return self.no_answer is None or self.no_answer <= 0.5

    def text(self, example: TextQuestion) -> str:
        """The passage as it stands in the source; empty where there is no answer."""
        if not self.is_answer:
            return ""
        start, end = example.characters[self.start][0], example.characters[self.end - 1][1]
        return example.source.context[start:end]


def tokenized_questions(questions: Iterable[Question]) -> list[TextQuestion]:
    """The questions of a corpus in words."""
    tokenized = cache(_tokenized)  # many questions are about the same text
    found = []
    for source in questions:
        context, characters = tokenized(source.context)
        spans = (_words_of(answer, characters) for answer in source.answers)
        answers = tuple(dict.fromkeys(span for span in spans if span is not None))
        asked = tokenized(source.question)[0]
        found.append(TextQuestion(asked, context, characters, source, answers))
    return found


def unlabeled_question(
    question: tuple[str, ...], context: tuple[str, ...], text: str | None = None
) -> TextQuestion:
    """A question of which no answer is known.

    Args:
        question, context: words; where there are none, `NO_WORDS` is read.
        text: of which the context is the words; None for the words with blanks between them.
    """
    source = Question("", " ".join(context) if text is None else text, " ".join(question), ())
    return TextQuestion(question or (NO_WORDS,), *_placed(text, context), source)


def cropped(example: TextQuestion, longest: int) -> TextQuestion:
    """An example with so many words of its text at most, the first answer among them.

    Where the answer stands in them is drawn, by the name of the question: in the middle of all, it
    would be looked for there. Of an answer that is longer still nothing is cut off.
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
    """The words of a text, and where each of them starts and ends."""
    return _placed(text, tuple(get_tokenizer(TOKENIZER)(text)))


def _placed(text: str | None, words: tuple[str, ...]) -> tuple[tuple[str, ...], Places]:
    """The words of a text, or what is read where there are none, and their places in it."""
    if not words:
        return (NO_WORDS,), ((0, 0),)
    offsets = joined_offsets(words) if text is None else token_offsets(text, words)
    return words, tuple(offsets)


def _words_of(answer: Answer, characters: Places) -> tuple[int, int] | None:
    """The first and the last word that an answer has characters of; None if it has none of any."""
    start, end = answer.start, answer.start + len(answer.text)
    words = [place for place, own in enumerate(characters) if own[1] > start and own[0] < end]
    return (words[0], words[-1]) if words else None
