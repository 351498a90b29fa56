"""Bootstrap intervals: against all possible resamples, and their properties."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmox.errors import ElmoxError
from elmox.probes import bootstrap
from elmox.probes.bootstrap import Interval, accuracy_interval

RNG = np.random.default_rng(0)
RIGHT = RNG.random(60) < 0.7
OTHER = RNG.random(60)
GROUPS = RNG.integers(12, size=60)


def all_resamples(gains: list[list[float]]) -> NDArray[np.float64]:
    """Return the means of all possible draws of as many groups as there are, sorted."""
    means = []
    for drawn in itertools.product(gains, repeat=len(gains)):
        items = [item for group in drawn for item in group]
        means.append(sum(items) / len(items))
    return 100 * np.sort(np.array(means))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_against_all_resamples(paired: bool, level: float) -> None:
    right = np.array([1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1])
    other = np.array([0, 0, 1, 0.4, 0, 0.2, 1, 0.6, 0, 0, 0.2, 0])
    groups = np.repeat(np.arange(5), [3, 1, 2, 4, 2])
    gains = right - other if paired else right
    exact = all_resamples([gains[groups == group].tolist() for group in range(5)])
    interval = accuracy_interval(
        right, groups, other=other if paired else None, samples=200_000, level=level
    )
    assert interval.estimate == pytest.approx(100 * gains.mean())
    # The distribution has steps: the end must be between quantiles a little to each side.
    for end, share in ((interval.low, (1 - level) / 2), (interval.high, (1 + level) / 2)):
        below, above = np.quantile(exact, [share - 0.005, share + 0.005])
        assert below - 1e-9 <= end <= above + 1e-9


def test_with_single_words_it_is_the_binomial_interval() -> None:
    right = np.arange(1000) < 700
    interval = accuracy_interval(right, np.arange(1000))
    half = 100 * 1.96 * math.sqrt(0.7 * 0.3 / 1000)
    assert interval.low == pytest.approx(70 - half, abs=0.15)
    assert interval.high == pytest.approx(70 + half, abs=0.15)


def test_words_of_a_sentence_are_drawn_together() -> None:
    """Four words that are always right or wrong together are worth one: twice the width."""
    right = np.repeat(np.arange(250) % 2 == 0, 4)
    alone = accuracy_interval(right, np.arange(1000))
    together = accuracy_interval(right, np.repeat(np.arange(250), 4))
    ratio = (together.high - together.low) / (alone.high - alone.low)
    assert ratio == pytest.approx(2, rel=0.1)


def test_pairs_are_kept() -> None:
    """If both are wrong on the same words, the interval of the difference is narrower."""
    better = RIGHT | (np.arange(60) < 3)
    difference = accuracy_interval(better, GROUPS, other=RIGHT)
    alone = accuracy_interval(RIGHT, GROUPS)
    assert difference.low >= 0
    assert difference.high - difference.low < (alone.high - alone.low) / 2
    assert accuracy_interval(RIGHT, GROUPS, other=RIGHT) == Interval(0.0, 0.0, 0.0)


@given(
    right=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    seed=st.integers(0, 100),
    data=st.data(),
)
@settings(max_examples=50, deadline=None)
def test_properties(right: list[float], seed: int, data: st.DataObject) -> None:
    numbers = st.lists(st.integers(-3, 3), min_size=len(right), max_size=len(right))
    groups = np.array(data.draw(numbers))
    values = np.array(right)
    other = values[::-1].copy()
    interval = accuracy_interval(values, groups, samples=200, seed=seed)
    assert interval.estimate == pytest.approx(100 * values.mean())
    assert 100 * values.min() - 1e-9 <= interval.low <= interval.high <= 100 * values.max() + 1e-9
    if len(set(groups.tolist())) == 1:
        assert interval.low == pytest.approx(interval.high)
    order = np.random.default_rng(seed).permutation(len(right))
    again = accuracy_interval(values[order], groups[order], samples=200, seed=seed)
    assert (again.low, again.high) == pytest.approx((interval.low, interval.high))
    one = accuracy_interval(values, groups, other=other, samples=200, seed=seed)
    reverse = accuracy_interval(other, groups, other=values, samples=200, seed=seed)
    assert (one.estimate, one.low, one.high) == pytest.approx(
        (-reverse.estimate, -reverse.high, -reverse.low)
    )


def test_only_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = accuracy_interval(RIGHT, GROUPS, other=OTHER, seed=1)
    assert accuracy_interval(RIGHT, GROUPS, other=OTHER, seed=1) == interval
    assert accuracy_interval(RIGHT, GROUPS, other=OTHER, seed=2) != interval
    monkeypatch.setattr(bootstrap, "_DRAWS_AT_ONCE", 100)  # the size of a chunk has no effect
    assert accuracy_interval(RIGHT, GROUPS, other=OTHER, seed=1) == interval


def test_str() -> None:
    assert str(Interval(91.234, 90.5, 92)) == "91.23 [90.50, 92.00]"


def test_bad_arguments() -> None:
    with pytest.raises(ElmoxError, match="a group for each"):
        accuracy_interval(RIGHT, GROUPS[:-1])
    with pytest.raises(ElmoxError, match="at least one"):
        accuracy_interval(RIGHT[:0], GROUPS[:0])
    with pytest.raises(ElmoxError, match="the same items"):
        accuracy_interval(RIGHT, GROUPS, other=OTHER[:-1])
    with pytest.raises(ElmoxError, match=r"level=1\.5"):
        accuracy_interval(RIGHT, GROUPS, level=1.5)
