"""Answers to questions: SQuAD's exact match and F1, in both versions."""

import random
from dataclasses import astuple

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.qa.metrics import (
    AnswerScore,
    QuestionScore,
    Squad2Score,
    normalized,
    score_answer,
    score_answer2,
    score_squad,
    score_squad2,
)
from elmox.tasks.qa.questions import Answer, Question
from elmox.tasks.qa.squad import read_squad

XQUAD = SHARED / "tasks" / "qa_xquad_en" / "xquad.en.json"


def question(*answers: str, name: str = "1") -> Question:
    context = " ".join(answers)
    spans = tuple(Answer(text, context.index(text)) for text in answers)
    return Question(name, context, "What?", spans, is_impossible=not answers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Denver\tBroncos!", "denver broncos"),
        ("a", ""),
        ("An apple, a day", "apple day"),
        ("Theatre; banana: anthem", "theatre banana anthem"),  # articles are whole words
        ("the-end", "theend"),  # punctuation goes first
        ("a.m.", "am"),
        ("l'a b", "la b"),
        ("$4.5–5 “billion”", "45–5 “billion”"),  # other than ASCII's punctuation stays
        ("5—a—6", "5— —6"),
        ("ÉMILE", "émile"),
        ("one\xa0two", "one two"),
        ("a an the", ""),
        ("", ""),
    ],
)
def test_texts_are_compared_normalized(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("gold", "prediction", "exact", "f1"),
    [
        (["Denver Broncos"], "the Denver Broncos.", True, 1.0),
        (["Denver Broncos"], "Broncos Denver", False, 1.0),  # words in any order
        (["Denver Broncos"], "Denver", False, 2 / 3),  # precision 1, recall 1/2
        (["Denver Broncos"], "in Denver, Colorado", False, 2 / 5),  # 1/3 and 1/2
        (["a b b c"], "b b b", False, 2 / 3),  # two of three b, two of b b c
        (["Denver", "Denver Broncos"], "Broncos", False, 2 / 3),  # the best of both
        (["Denver", "Broncos"], "Broncos", True, 1.0),
        (["Denver"], "Carolina", False, 0.0),
        (["Denver"], "", False, 0.0),
        (["Denver"], "the", False, 0.0),
    ],
)
def test_one_answer(gold: list[str], prediction: str, exact: bool, f1: float) -> None:
    gold_question = question(*gold)
    assert score_answer(gold_question, prediction) == pytest.approx((exact, f1))
    assert score_answer2(gold_question, prediction) == pytest.approx((exact, f1))


def test_differences_between_the_versions() -> None:
    # Nothing is left of "The": version 1.1 finds both equal but no word shared, version 2.0 takes
    # no heed of such a gold answer and expects the empty one.
    assert score_answer(question("The"), "a") == QuestionScore(True, 0.0)
    assert score_answer2(question("The"), "a") == QuestionScore(True, 1.0)
    assert score_answer2(question("The"), "dog") == QuestionScore(False, 0.0)
    assert score_answer2(question("The", "dog"), "") == QuestionScore(False, 0.0)
    assert score_answer2(question("The", "dog"), "dog") == QuestionScore(True, 1.0)
    with pytest.raises(ElmoxError, match="question 1 has no answers"):
        score_answer(question(), "")


def test_version_1_over_questions() -> None:
    questions = [question("Denver Broncos", name=name) for name in "abcd"]
    predictions = {"a": "Denver Broncos", "b": "Denver", "c": "", "other": "Denver Broncos"}
    score = score_squad(questions, predictions)  # 1, 2/3, 0, and 0 for the one that is missing
    assert (score.num_questions, score.exact) == (4, 25.0)
    assert score.f1 == pytest.approx(100 * (1 + 2 / 3) / 4)
    assert score_squad([], {}) == AnswerScore(0, 0.0, 0.0)


def test_version_2_over_questions() -> None:
    questions = [
        question("Denver Broncos", name="a"),
        question("Denver Broncos", name="b"),
        question(name="c"),
        question(name="d"),
        question(name="e"),
    ]
    predictions = {"a": "Broncos", "b": "", "c": "", "d": "the", "e": "Denver"}
    score = score_squad2(questions, predictions)
    assert astuple(score.has_answer) == pytest.approx((2, 0, 100 / 3))  # 2/3 and 0
    assert astuple(score.no_answer) == pytest.approx((3, 200 / 3, 200 / 3))  # 1, 1 and 0
    assert astuple(score.overall) == pytest.approx((5, 40, 100 * (2 / 3 + 2) / 5))
    nothing = AnswerScore(0, 0.0, 0.0)
    assert score_squad2([], {}) == Squad2Score(nothing, nothing, nothing)
    with pytest.raises(ElmoxError, match='no prediction for question e, expected one or ""'):
        score_squad2(questions, {name: text for name, text in predictions.items() if name != "e"})


@pytest.mark.skipif(not XQUAD.exists(), reason=f"no XQuAD at {XQUAD} (set ELMOX_SHARED)")
def test_real_answers() -> None:
    questions = read_squad(XQUAD)
    right = {question.id: question.answers[0].text for question in questions}
    assert score_squad(questions, right) == AnswerScore(1190, 100.0, 100.0)
    assert score_squad2(questions, right).has_answer == AnswerScore(1190, 100.0, 100.0)
    texts = list(right.values())
    random.Random(0).shuffle(texts)
    wrong = score_squad(questions, dict(zip(right, texts, strict=True)))
    assert wrong.exact < wrong.f1 < 5
