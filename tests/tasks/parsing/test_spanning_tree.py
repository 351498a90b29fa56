"""The best tree against all trees one by one, at its edges, and for long sentences."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmox.tasks.parsing.spanning_tree import ROOT, best_tree, is_tree


def reaches_root(heads: tuple[int, ...], word: int) -> bool:
    for _ in heads:
        word = heads[word - 1]
        if word == ROOT:
            return True
    return False


@cache
def all_trees(num_words: int) -> NDArray[np.int64]:
    """Every tree with one word at the root, (N, T)."""
    trees = [
        heads
        for heads in product(range(num_words + 1), repeat=num_words)
        if heads.count(ROOT) == 1
        and all(reaches_root(heads, word) for word in range(1, num_words + 1))
    ]
    return np.array(trees)


def totals(scores: NDArray[np.floating], trees: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the total score of each tree (N, T): (N,)."""
    sums: NDArray[np.float64] = scores[np.arange(len(scores)), trees].astype(np.float64).sum(1)
    return sums


def in_tree(heads: NDArray[np.int64]) -> bool:
    plain = tuple(heads.tolist())
    words = range(1, len(plain) + 1)
    return plain.count(ROOT) == 1 and all(reaches_root(plain, word) for word in words)


@st.composite
def score_tables(draw: st.DrawFn) -> NDArray[np.float64]:
    """Scores of one to five words: small numbers with many ties, or any numbers."""
    size = draw(st.integers(1, 5))
    numbers = draw(
        st.sampled_from([st.integers(0, 1), st.integers(-3, 3), st.integers(-(2**40), 2**40)])
    )
    count = size * (size + 1)
    values = draw(st.lists(numbers, min_size=count, max_size=count))
    return np.array(values, np.float64).reshape(size, size + 1)


def test_trees_are_all_there() -> None:
    """T words at the root, times Cayley's number of trees of the words."""
    assert [len(all_trees(t)) for t in range(1, 6)] == [t ** (t - 1) for t in range(1, 6)]


@settings(max_examples=300, deadline=None)
@given(score_tables())
def test_none_is_better_of_all_trees(scores: NDArray[np.float64]) -> None:
    heads = best_tree(scores)
    assert heads.tolist() in all_trees(len(scores)).tolist()
    assert totals(scores, heads[None])[0] == totals(scores, all_trees(len(scores))).max()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 4.0, 1e4]))
def test_any_scores(seed: int, of_root: float) -> None:
    """Whether the root attracts all words or hardly one, in single precision as models have it."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(5, 6)).astype(np.float32)
    scores[:, ROOT] += np.float32(of_root)
    every = all_trees(5)
    heads = best_tree(scores)
    assert heads.tolist() == every[totals(scores, every).argmax()].tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=5, max_size=5).map(np.array))
def test_definition_of_a_tree(heads: NDArray[np.int64]) -> None:
    assert is_tree(heads) == in_tree(heads)


def test_circles_in_circles() -> None:
    """1 and 2 prefer each other, 3 and the two of them, 4 and the three: contracted three times."""
    scores = np.full((4, 5), -100.0)
    scores[0, 2] = scores[1, 1] = 50  # heads 1 <- 2, 2 <- 1
    scores[2, 1] = scores[0, 3] = 40
    scores[3, 3] = scores[1, 4] = 30
    scores[3, ROOT] = 10
    assert best_tree(scores).tolist() == [2, 4, 1, 0]  # 10 + 30 + 50 + 40


def test_a_path_of_heads_that_ends_in_a_circle() -> None:
    scores = np.zeros((4, 5))
    for word, head in ((1, 2), (2, 3), (3, 4), (4, 3)):
        scores[word - 1, head] = 9
    scores[3, ROOT] = 1
    assert best_tree(scores).tolist() == [2, 3, 4, 0]


@pytest.mark.parametrize("size", [200, 1000])
def test_long_sentences(size: int) -> None:
    """A hidden tree is found again, by itself and where all words would like the root best."""
    rng = np.random.default_rng(size)
    order = rng.permutation(size) + 1
    heads = np.zeros(size, np.int64)
    for index in range(1, size):
        heads[order[index] - 1] = order[rng.integers(index)]
    scores = rng.normal(size=(size, size + 1))
    scores[np.arange(size), heads] += 20
    assert best_tree(scores).tolist() == heads.tolist()
    scores[:, ROOT] = 100
    assert best_tree(scores).tolist() == heads.tolist()


def test_as_with_a_large_number_for_the_root() -> None:
    """Forty words, against the best tree with each of them at the root; in whole numbers."""
    rng = np.random.default_rng(0)
    scores = rng.integers(-20, 20, size=(40, 41)).astype(np.float64)
    heads = best_tree(scores)
    assert in_tree(heads)
    alone = []
    for word in range(40):  # barred from the root, all but one
        barred = scores.copy()
        barred[:, ROOT] = -1e6
        barred[word, ROOT] = scores[word, ROOT]
        tree = best_tree(barred)
        assert tree[word] == ROOT
        alone.append(totals(scores, tree[None])[0])
    assert totals(scores, heads[None])[0] == max(alone)


def test_the_same_of_equals_every_time() -> None:
    for size in range(1, 8):
        heads = best_tree(np.zeros((size, size + 1)))
        assert in_tree(heads)
        assert heads.tolist() == best_tree(np.zeros((size, size + 1), np.float32)).tolist()


def test_a_word_is_never_its_own_head() -> None:
    scores = np.zeros((3, 4))
    scores[np.arange(3), np.arange(3) + 1] = np.nan
    assert in_tree(best_tree(scores))
    assert best_tree(np.array([[-5.0, 7.0]])).tolist() == [ROOT]


def test_scores_that_make_no_sense() -> None:
    with pytest.raises(AssertionError, match="expected"):
        best_tree(np.zeros((3, 3)))
    with pytest.raises(AssertionError, match="without words"):
        best_tree(np.zeros((0, 1)))
    with pytest.raises(AssertionError, match="not finite"):
        best_tree(np.array([[0.0, 0.0, -np.inf], [0.0, 1.0, 0.0]]))
