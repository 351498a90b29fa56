"""Answers to questions as SQuAD's official scripts score them.

Exact match asks whether an answer is a gold one; F1 is that of the words they share. Both look at
texts in lower case without punctuation, articles and further blanks, take the best of several gold
answers, and are averaged over questions. `score_squad` is version 1.1's script. `score_squad2` is
version 2.0's, where the empty answer says that there is none: right or wrong, nothing in between.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from elmox.errors import ElmoxError
from elmox.tasks.metrics.tally import percent
from elmox.tasks.qa.questions import Question

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class QuestionScore(NamedTuple):
    """Of one question: whether the answer is exactly right, and F1 from 0 to 1."""

    exact: bool
    f1: float


@dataclass(frozen=True)
class AnswerScore:
    """Over so many questions, in percent; 0 over none."""

    num_questions: int
    exact: float
    f1: float


@dataclass(frozen=True)
class Squad2Score:
    """Over all questions, over those with an answer (HasAns) and over the others (NoAns)."""

    overall: AnswerScore
    has_answer: AnswerScore
    no_answer: AnswerScore


def score_squad(questions: Iterable[Question], predictions: Mapping[str, str]) -> AnswerScore:
    """The score of answers by the ids of their questions; one that is missing is wrong."""
    return _average(
        score_answer(question, predictions[question.id])
        if question.id in predictions
        else QuestionScore(False, 0.0)
        for question in questions
    )


def score_squad2(questions: Iterable[Question], predictions: Mapping[str, str]) -> Squad2Score:
    """The score of answers by the ids of their questions; the empty one says that there is none.

    All questions need a prediction. (The official script would leave the others out of its mean.)
    """
    has_answer: list[QuestionScore] = []
    no_answer: list[QuestionScore] = []
    for question in questions:
        if question.id not in predictions:
            raise ElmoxError(f'no prediction for question {question.id}, expected one or ""')
        score = score_answer2(question, predictions[question.id])
        (has_answer if question.answers else no_answer).append(score)
    return Squad2Score(
        _average([*has_answer, *no_answer]), _average(has_answer), _average(no_answer)
    )


def score_answer(question: Question, prediction: str) -> QuestionScore:
    """The score of one answer, as version 1.1 has it: every question has gold answers."""
    if not question.answers:
        raise ElmoxError(f"question {question.id} has no answers: version 2.0's score allows that")
    said = normalized(prediction)
    golds = [normalized(answer.text) for answer in question.answers]
    return QuestionScore(said in golds, max(_overlap(said.split(), own.split()) for own in golds))


def score_answer2(question: Question, prediction: str) -> QuestionScore:
    """The score of one answer, as version 2.0 has it.

    Gold answers of which nothing is left, such as "the", do not count; without any other the right
    answer is the empty one.
    """
    said = normalized(prediction)
    golds = [normalized(answer.text) for answer in question.answers]
    golds = [own for own in golds if own] or [""]
    best = max(
        _overlap(said.split(), own.split()) if said and own else said == own for own in golds
    )
    return QuestionScore(said in golds, float(best))


def normalized(text: str) -> str:
    """A text in lower case, without ASCII punctuation and English articles, one blank for many."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _overlap(said: list[str], gold: list[str]) -> float:
    """The F1 of the words that two texts share; 0 if they share none, even if both are empty."""
    shared = (Counter(said) & Counter(gold)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _average(scores: Iterable[QuestionScore]) -> AnswerScore:
    found = list(scores)
    exact, f1 = sum(own.exact for own in found), sum(own.f1 for own in found)
    return AnswerScore(len(found), percent(exact, len(found)), percent(f1, len(found)))
