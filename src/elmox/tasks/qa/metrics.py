"""Answers to questions as SQuAD's official scripts score them.

Exact match is whether an answer is a gold one; F1 is that of the words they share. Both compare
texts in lower case without punctuation, articles and extra blanks, take the best of several gold
answers, and are averaged over questions. `score_squad` is version 1.1's script. `score_squad2` is
version 2.0's, where the empty answer means that there is none: it is right or wrong.
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
    """The score of one question: exact match, and F1 from 0 to 1."""

    exact: bool
    f1: float


@dataclass(frozen=True)
class AnswerScore:
    """Means over a number of questions, in percent; 0 over none."""

    num_questions: int
    exact: float
    f1: float


@dataclass(frozen=True)
class Squad2Score:
    """Scores over all questions, those with an answer (HasAns) and the others (NoAns)."""

    overall: AnswerScore
    has_answer: AnswerScore
    no_answer: AnswerScore


def score_squad(questions: Iterable[Question], predictions: Mapping[str, str]) -> AnswerScore:
    """Score answers by the ids of their questions; a missing one counts as wrong."""
    return _average(
        score_answer(question, predictions[question.id])
        if question.id in predictions
        else QuestionScore(False, 0.0)
        for question in questions
    )


def score_squad2(questions: Iterable[Question], predictions: Mapping[str, str]) -> Squad2Score:
    """Score answers by the ids of their questions; the empty one means that there is none.

    All questions need a prediction. (The official script would skip the others.)
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
    """Score one answer as version 1.1 does: every question has gold answers."""
    if not question.answers:
        raise ElmoxError(f"question {question.id} has no answers: version 2.0's score allows that")
    predicted = normalized(prediction)
    golds = [normalized(answer.text) for answer in question.answers]
    return QuestionScore(
        predicted in golds, max(_overlap(predicted.split(), gold.split()) for gold in golds)
    )


def score_answer2(question: Question, prediction: str) -> QuestionScore:
    """Score one answer as version 2.0 does.

    Gold answers that normalize to nothing, such as "the", do not count. Without any other, the
    right answer is the empty one.
    """
    predicted = normalized(prediction)
    golds = [normalized(answer.text) for answer in question.answers]
    golds = [gold for gold in golds if gold] or [""]
    best = max(
        _overlap(predicted.split(), gold.split()) if predicted and gold else predicted == gold
        for gold in golds
    )
    return QuestionScore(predicted in golds, float(best))


def normalized(text: str) -> str:
    """Return a text in lower case without ASCII punctuation, English articles and extra blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _overlap(predicted: list[str], gold: list[str]) -> float:
    """Return the F1 of the words that two texts share; 0 if none, even if both are empty."""
    shared = (Counter(predicted) & Counter(gold)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _average(scores: Iterable[QuestionScore]) -> AnswerScore:
    all_scores = list(scores)
    exact, f1 = sum(score.exact for score in all_scores), sum(score.f1 for score in all_scores)
    return AnswerScore(
        len(all_scores), percent(exact, len(all_scores)), percent(f1, len(all_scores))
    )
