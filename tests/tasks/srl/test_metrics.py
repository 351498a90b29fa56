"""Semantic roles: what the official script calls one argument, and what is right."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from shared_data import SHARED

from elmox.errors import ElmoxError
from elmox.tasks.data.propositions import Argument, Proposition
from elmox.tasks.metrics.tally import Tally
from elmox.tasks.srl.metrics import RoleScore, joined, score_roles, score_sentence
from elmox.tasks.srl.propbank import read_propbank

EWT = SHARED / "tasks" / "srl_propbank_ewt"


def proposition(pred: int, *args: tuple[str, int, int]) -> Proposition:
    return Proposition(pred, "say", "say.01", tuple(Argument(*arg) for arg in args))


def overall(gold: Sequence[Proposition], predicted: Sequence[Proposition]) -> Tally:
    return score_sentence(gold, predicted).overall


def test_an_argument_is_right_if_span_and_label_are() -> None:
    gold = proposition(1, ("ARG0", 0, 1), ("V", 1, 2), ("ARG1", 2, 5), ("ARGM-TMP", 5, 6))
    predicted = proposition(
        1,
        ("ARG0", 0, 1),  # right
        ("V", 1, 2),  # does not count
        ("ARG1", 2, 4),  # another span
        ("ARGM-LOC", 5, 6),  # another label
        ("ARG2", 6, 7),  # one too many
    )
    score = score_sentence([gold], [predicted])
    assert score.overall == Tally.of(1, predicted=4, gold=3)
    assert (score.overall.precision, score.overall.recall) == pytest.approx((25, 100 / 3))
    assert score.overall.f1 == pytest.approx(200 / 7)
    assert score.by_label == {
        "ARG0": Tally.of(1, 1, 1),
        "ARG1": Tally.of(0, 1, 1),
        "ARG2": Tally.of(0, 1, 0),
        "ARGM-LOC": Tally.of(0, 1, 0),
        "ARGM-TMP": Tally.of(0, 0, 1),
    }


@pytest.mark.parametrize(
    ("predicted", "correct", "num_predicted"),
    [
        ([("ARG1", 0, 2), ("C-ARG1", 4, 6)], 1, 1),
        ([("C-ARG1", 4, 6), ("ARG1", 0, 2)], 1, 1),  # in any order
        ([("ARG1", 0, 2)], 0, 1),
        ([("C-ARG1", 4, 6)], 0, 1),
        ([("ARG1", 0, 2), ("C-ARG1", 4, 5)], 0, 1),  # one piece is wrong: all is
        ([("ARG1", 0, 2), ("ARG1", 4, 6)], 0, 2),
        ([("ARG1", 0, 2), ("C-ARG1", 4, 6), ("C-ARG1", 7, 8)], 0, 1),
        ([("ARG1", 0, 6)], 0, 1),  # both pieces and what is between them
        ([("ARG2", 0, 2), ("C-ARG2", 4, 6)], 0, 1),
        ([("ARG1", 0, 2), ("C-ARG2", 4, 6)], 0, 2),
    ],
)
def test_pieces_are_one_argument(
    predicted: list[tuple[str, int, int]], correct: int, num_predicted: int
) -> None:
    gold = proposition(3, ("ARG1", 0, 2), ("V", 3, 4), ("C-ARG1", 4, 6))
    tally = overall([gold], [proposition(3, ("V", 3, 4), *predicted)])
    assert tally == Tally.of(correct, num_predicted, gold=1)


def test_the_argument_that_a_piece_continues() -> None:
    args = [
        ("C-ARG0", 0, 1),  # nothing before: an ARG0, which the next one begins anew
        ("ARG0", 1, 2),
        ("V", 2, 3),
        ("C-V", 3, 4),
        ("R-ARG0", 4, 5),
        ("C-R-ARG0", 5, 6),
        ("ARG0", 6, 7),
        ("C-ARG0", 7, 8),  # of the latest ARG0
        ("C-ARG0", 8, 9),
    ]
    assert joined(Argument(*arg) for arg in args) == [
        ("ARG0", ((0, 1),)),
        ("ARG0", ((1, 2),)),
        ("R-ARG0", ((4, 5), (5, 6))),
        ("ARG0", ((6, 7), (7, 8), (8, 9))),
    ]
    assert joined([]) == joined([Argument("C-V", 0, 1), Argument("V", 2, 3)]) == []


def test_a_piece_with_nothing_before_it_is_the_argument_itself() -> None:
    gold, predicted = proposition(1, ("ARG1", 0, 1)), proposition(1, ("C-ARG1", 0, 1))
    assert overall([gold], [predicted]) == Tally.of(1, 1, 1)


def test_predicates_are_given() -> None:
    gold = [proposition(1, ("ARG0", 0, 1)), proposition(4, ("ARG0", 0, 1), ("ARG1", 5, 6))]
    tally = overall(gold, [proposition(1, ("ARG0", 0, 1)), proposition(2, ("ARG0", 0, 1))])
    assert tally == Tally.of(1, predicted=1, gold=3)  # word 2 is no predicate, word 4 was missed


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([], [], Tally()),
        ([proposition(1)], [], Tally()),
        ([proposition(1, ("V", 1, 2))], [proposition(1, ("V", 1, 2))], Tally()),
        ([proposition(1, ("ARG0", 0, 1))], [proposition(1)], Tally.of(0, predicted=0, gold=1)),
        ([proposition(1)], [proposition(1, ("ARG0", 0, 1))], Tally.of(0, predicted=1, gold=0)),
        # The same twice, which no well-formed prediction has: right once.
        (
            [proposition(1, ("ARG0", 0, 1))],
            [proposition(1, *[("ARG0", 0, 1)] * 2)],
            Tally.of(1, 2, 1),
        ),
        # An argument where V is, and the other way round, gains nothing.
        ([proposition(1, ("V", 1, 2))], [proposition(1, ("ARG0", 1, 2))], Tally.of(0, 1, 0)),
        ([proposition(1, ("ARG0", 1, 2))], [proposition(1, ("V", 1, 2))], Tally.of(0, 0, 1)),
    ],
)
def test_degenerate_cases(
    gold: list[Proposition], predicted: list[Proposition], expected: Tally
) -> None:
    assert overall(gold, predicted) == expected
    if not expected.correct:
        assert expected.f1 == expected.precision == expected.recall == 0.0


def test_sentences_add_up() -> None:
    gold = [[proposition(1, ("ARG0", 0, 1))], [], [proposition(0, ("ARG1", 1, 2))]]
    predicted = [[proposition(1, ("ARG0", 0, 1))], [], [proposition(0, ("ARG0", 1, 2))]]
    score = score_roles(gold, predicted)
    assert score.overall == Tally.of(1, 2, 2)
    assert score.by_label == {"ARG0": Tally.of(1, 2, 1), "ARG1": Tally.of(0, 0, 1)}
    assert score_roles([], []) == RoleScore()


def test_mismatched_inputs_are_refused() -> None:
    with pytest.raises(ElmoxError, match="1 sentences predicted, expected 2 as in gold"):
        score_roles([[], []], [[]])
    with pytest.raises(ElmoxError, match="two propositions of word 1"):
        score_sentence([proposition(1), proposition(1)], [])


@pytest.mark.skipif(not EWT.is_dir(), reason=f"no PropBank at {EWT} (set ELMOX_SHARED)")
def test_real_propositions_against_themselves() -> None:
    path: Path = EWT / "dev.jsonl.xz"
    gold = [sentence.propositions for sentence in read_propbank(path)]
    labels = [arg.label for props in gold for prop in props for arg in prop.args]
    number = sum(label != "V" and not label.startswith("C-") for label in labels)
    score = score_roles(gold, gold)
    assert score.overall == Tally.of(number, number, number)
    assert score.overall.f1 == 100.0
    assert "V" not in score.by_label
