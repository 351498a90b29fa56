"""Coreference scores: published examples, degenerate cases, and the measures' own definitions.

Mentions are letters here, and entities are words: "a bc def" are three entities of six mentions.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmox.tasks.coref.alignment import best_alignment
from elmox.tasks.coref.metrics import CoreferenceScore, score_coreference, score_document
from elmox.tasks.metrics.tally import Tally

Pair = tuple[Fraction | float, Fraction | float]

F = Fraction


def score(key: str, response: str, keep_singletons: bool = True) -> CoreferenceScore:
    return score_document(key.split(), response.split(), keep_singletons=keep_singletons)


def recall_precision(tally: Tally) -> Pair:
    return tally.recall / 100, tally.precision / 100


# The reference scorer's test cases A, B, M and N (Pradhan et al. 2014): (recall, precision) of MUC,
# B-cubed and CEAF-phi4. Take A-4, whose key is a bc def and whose response is a bcx dy z:
# MUC: of the key's 0 + 1 + 2 links only b-c is there; the response has 0 + 2 + 1 + 0: 1/3 and 1/3.
# B-cubed: a, b and c are each with all of their key entity, d with a third: (3 + 1/3) / 6 = 5/9. Of
# the response entity, a has 1, b and c 2/3 each, d 1/2, x y z nothing: (1 + 4/3 + 1/2) / 7 = 17/42.
# CEAF: a-a is worth 1, bc-bcx 2 x 2 / 5, def-dy 2 x 1 / 5, in all 11/5, over 3 and 4 entities.
A4 = ((F(1, 3), F(1, 3)), (F(5, 9), F(17, 42)), (F(11, 15), F(11, 20)))


@pytest.mark.parametrize(
    ("key", "response", "expected"),
    [
        ("a bc def", "a bc def", ((1, 1), (1, 1), (1, 1))),
        ("a bc def", "a de", ((F(1, 3), 1), (F(7, 18), 1), (F(3, 5), F(9, 10)))),
        ("a bc def", "a bcx defy z", ((1, F(3, 5)), (1, F(55, 108)), (F(31, 35), F(93, 140)))),
        ("a bc def", "a bcx dy z", A4),
        # B is another mention than b, with a span that overlaps b's: only exact spans are the same.
        (
            "a bc def",
            "a bcxB dy z",
            ((F(1, 3), F(1, 4)), (F(5, 9), F(5, 16)), (F(31, 45), F(31, 60))),
        ),
        (
            "a bc def",
            "a bcx dy Bz",
            ((F(1, 3), F(1, 4)), (F(5, 9), F(17, 48)), (F(11, 15), F(11, 20))),
        ),
        # A mention twice, in one entity or two, or ten times, counts where it is first.
        ("a bc def", "a bcxb dy z", A4),
        ("a bc def", "a bcx dy bz", A4),
        ("a bc def", "a bcx dy bbbbbbbbbbz", A4),
        # Only singletons, or all in one; CEAF by hand: 1 + 2/3 + 2/4 = 13/6, and at best 6/9.
        ("a bc def", "a b c d e f", ((0, 0), (F(1, 2), 1), (F(13, 18), F(13, 36)))),
        ("a bc def", "abcdef", ((1, F(3, 5)), (1, F(7, 18)), (F(2, 9), F(2, 3)))),
        ("a bc def", "a x y c d e z", ((0, 0), (F(13, 36), F(4, 7)), (F(13, 18), F(13, 42)))),
        (
            "a bc def",
            "axycdez",
            ((F(1, 3), F(1, 6)), (F(17, 36), F(6, 49)), (F(2, 15), F(2, 5))),
        ),
        # B-1, all by hand: d-e is the only right link of 3 and 3; B-cubed (1/2 + 1/3 + 2 x 2/3) / 5
        # and (2 x 1/3 + 2 x 1) / 5; CEAF ab-bcx 2/5 and cde-de 4/5.
        ("ab cde", "bcx de", ((F(1, 3), F(1, 3)), (F(13, 30), F(8, 15)), (F(3, 5), F(3, 5)))),
        # M and N: nothing but one entity, nothing but singletons.
        ("abcdef", "abcdef", ((1, 1), (1, 1), (1, 1))),
        ("abcdef", "a b c d e f", ((0, 0), (F(1, 6), 1), (F(2, 7), F(1, 21)))),
        ("a b c d e f", "a b c d e f", ((0, 0), (1, 1), (1, 1))),
        ("a b c d e f", "a b c x y z", ((0, 0), (F(1, 2), F(1, 2)), (F(1, 2), F(1, 2)))),
    ],
)
def test_the_reference_scorers_cases(
    key: str, response: str, expected: tuple[Pair, Pair, Pair]
) -> None:
    scores = score(key, response)
    assert recall_precision(scores.muc) == pytest.approx(expected[0])
    assert recall_precision(scores.b_cubed) == pytest.approx(expected[1])
    assert recall_precision(scores.ceaf) == pytest.approx(expected[2])


@pytest.mark.parametrize(
    ("key", "response", "expected"),
    [
        ("ABCD", "AB CD", (F(2, 3), 1)),
        ("AB CD", "ABCD", (1, F(2, 3))),
        ("ABC", "AC", (F(1, 2), 1)),
        ("BCDEGHJ", "ABC DEF GHI", (F(1, 2), F(1, 2))),
        ("ABC DEFG", "AB CD FGH", (F(2, 5), F(1, 2))),
    ],
)
def test_examples_of_muc(key: str, response: str, expected: Pair) -> None:
    """Vilain et al. 1995, in the reference scorer cases F to L."""
    assert recall_precision(score(key, response).muc) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("response", "muc", "b_cubed", "ceaf"),
    [
        ("12345 6789ABC", 0.947, 0.865, 0.733),
        ("1234589ABC 67", 0.947, 0.737, 0.667),
        ("123456789ABC", 0.900, 0.545, 0.294),
        ("1 2 3 4 5 6 7 8 9 A B C", 0.0, 0.400, 0.178),
    ],
)
def test_luos_table(response: str, muc: float, b_cubed: float, ceaf: float) -> None:
    """Luo 2005, Table 1: four responses to one key; the figures are F1."""
    scores = score("12345 67 89ABC", response)
    f1 = scores.muc.f1, scores.b_cubed.f1, scores.ceaf.f1
    assert f1 == pytest.approx((100 * muc, 100 * b_cubed, 100 * ceaf), abs=0.05)


def test_pradhans_example() -> None:
    """Pradhan et al. 2014, section 4: both sides have mentions that the other has not.

    MUC: a-b and f-g are right, of 2 + 3 links in the key and 1 + 1 + 3 in the response.
    B-cubed: (2 x 2/3 + 1/3 + 1/4 + 2 x 2/4) / 7 = 5/12, (2 x 1 + 2 x 1/2 + 2 x 2/4) / 8 = 1/2.
    CEAF: abc-ab 4/5, defg-fghi 4/8, in all 13/10, over 2 and 3 entities.
    """
    scores = score("abc defg", "ab cd fghi")
    assert recall_precision(scores.muc) == pytest.approx((0.4, 0.4))
    assert recall_precision(scores.b_cubed) == pytest.approx((F(5, 12), F(1, 2)))
    assert recall_precision(scores.ceaf) == pytest.approx((F(13, 20), F(13, 30)))
    assert scores.mentions == Tally.of(6, predicted=8, gold=7)
    assert scores.mean == pytest.approx(100 * (0.4 + 5 / 11 + 0.52) / 3)


def test_singletons_count_or_do_not() -> None:
    with_them, without = score("a bc def", "a bc de f"), score("a bc def", "a bc de f", False)
    # Without: bc def against bc de. With: CEAF has 1 + 1 + 4/5, B-cubed recall 3 + 2 x 2/3 + 1/3.
    assert without == score("bc def", "bc de")
    assert recall_precision(without.b_cubed) == pytest.approx((F(2 + F(4, 3)) / 5, 1))
    assert recall_precision(without.ceaf) == pytest.approx((F(9, 10), F(9, 10)))
    assert recall_precision(with_them.b_cubed) == pytest.approx((F(14, 18), 1))
    assert recall_precision(with_them.ceaf) == pytest.approx((F(14, 15), F(14, 20)))
    assert with_them.muc == without.muc  # a singleton has no links
    # An entity that is left with one mention, once another one has claimed its others, is one too.
    assert score("ab", "ab b", False) == score("ab", "ab", False)


@pytest.mark.parametrize("keep_singletons", [True, False])
@pytest.mark.parametrize(
    ("key", "response"), [("", ""), ("ab cd", ""), ("", "ab cd"), ("ab cd", "wx yz")]
)
def test_nothing_in_common_scores_nothing(key: str, response: str, keep_singletons: bool) -> None:
    scores = score(key, response, keep_singletons)
    assert scores.mean == scores.mentions.f1 == 0.0
    assert recall_precision(scores.muc) == recall_precision(scores.ceaf) == (0.0, 0.0)


def test_entities_may_be_empty_and_documents_none() -> None:
    assert score_document(["ab", ""], [[], "ab"], keep_singletons=True).mean == 100.0
    assert score_coreference([]).mean == 0.0


def test_documents_are_summed_before_anything_is_divided() -> None:
    documents = [(["ab", "cd"], ["ab", "cd"]), (["abcd"], ["ab"])]
    scores = score_coreference(documents)
    # MUC finds 2 of 2 links and 1 of 3: 3 of 5, not the mean of 1 and 1/3.
    assert scores.muc == Tally.of(3, predicted=3, gold=5)
    assert scores.muc.recall == pytest.approx(60.0)
    assert scores == sum(
        (score_document(*document) for document in documents), start=CoreferenceScore()
    )


def entities(labels: list[int]) -> list[list[int]]:
    """Mention i is one of entity labels[i]; a mention with label 0 is none of any."""
    return [
        [mention for mention, mention_label in enumerate(labels) if mention_label == label]
        for label in sorted(set(labels) - {0})
    ]


partitions = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9)


def links(entities: Sequence[list[int]], others: Sequence[list[int]]) -> tuple[int, int]:
    """MUC as first defined: an entity's links less the cuts that the other side makes."""
    num_correct = num_links = 0
    for entity in entities:
        parts = {
            next((index for index, other in enumerate(others) if mention in other), -1 - mention)
            for mention in entity
        }
        num_correct += len(entity) - len(parts)
        num_links += len(entity) - 1
    return num_correct, num_links


@given(partitions)
@settings(max_examples=60, deadline=None)
def test_against_the_definitions(labels: list[tuple[int, int]]) -> None:
    key, response = (
        entities([label for label, _ in labels]),
        entities([label for _, label in labels]),
    )
    scores = score_document(key, response, keep_singletons=True)
    assert (scores.muc.recalled, scores.muc.gold) == links(key, response)
    assert (scores.muc.correct, scores.muc.predicted) == links(response, key)
    shares = [
        (len(set(entity) & set(other)) / len(entity), len(set(entity) & set(other)) / len(other))
        for entity in key
        for other in response
        for mention in set(entity) & set(other)
    ]
    assert scores.b_cubed.recalled == pytest.approx(sum(share for share, _ in shares))
    assert scores.b_cubed.correct == pytest.approx(sum(share for _, share in shares))
    worth = [[2 * len(set(a) & set(b)) / (len(a) + len(b)) for b in response] for a in key]
    table = np.array(worth).reshape(len(key), len(response))
    assert scores.ceaf.recalled == pytest.approx(best_by_trying(table))
    assert score_document(key[::-1], response[::-1], keep_singletons=True).mean == pytest.approx(
        scores.mean
    )


def best_by_trying(gains: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    rows, columns = sorted(gains.shape)
    table = gains if gains.shape[0] == rows else gains.T
    return max(
        sum(float(table[row, column]) for row, column in enumerate(chosen))
        for chosen in permutations(range(columns), rows)
    )


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=80, deadline=None)
def test_the_alignment_is_the_best(rows: int, columns: int, seed: int, ties: bool) -> None:
    gains = np.random.default_rng(seed).normal(size=(rows, columns))
    gains = gains.round() if ties else gains
    left, right = best_alignment(gains)
    assert len(left) == len(set(left)) == len(right) == len(set(right)) == min(rows, columns)
    assert gains[left, right].sum() == pytest.approx(best_by_trying(gains) if gains.size else 0)


def test_a_long_document() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(1, 600, size=3000)
    noisy = np.where(rng.random(3000) < 0.1, rng.integers(1, 600, size=3000), labels)
    scores = score_document(entities(labels.tolist()), entities(noisy.tolist()))
    assert 75 < scores.mean < 95
    assert score_document(entities(labels.tolist()), entities(labels.tolist())).mean == 100.0
