"""Batches: nothing lost, the budget kept, both reading directions right."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmox.text.batches import (
    index_sentences,
    plan_batches,
    rows_without_bounds,
    time_major,
)

lengths = st.lists(st.integers(0, 40), max_size=30)


@given(lengths, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_every_sentence_once_within_the_budget(
    sizes: list[int], budget: int, batch_size: int | None
) -> None:
    batches = plan_batches(sizes, budget, batch_size)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(sizes)))
    for batch in batches:
        total = sum(sizes[i] for i in batch)
        assert total <= budget or len(batch) == 1
        assert batch_size is None or len(batch) <= batch_size
    longest_first = [sizes[i] for batch in batches for i in batch]
    assert longest_first == sorted(sizes, reverse=True)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_time_major_reads_every_sentence_in_both_directions(sizes: list[int]) -> None:
    order = time_major(np.array(sizes))
    starts = np.cumsum(sizes) - sizes
    read: dict[str, list[list[int]]] = {
        "forward": [[] for _ in sizes],
        "backward": [[] for _ in sizes],
    }
    token = 0
    for size in order.step_sizes:
        for row in range(size):
            sentence = order.rows[row]
            read["forward"][sentence].append(int(order.forward[token] - starts[sentence]))
            read["backward"][sentence].append(int(order.backward[token] - starts[sentence]))
            token += 1
    assert read["forward"] == [list(range(size)) for size in sizes]
    assert read["backward"] == [list(range(size))[::-1] for size in sizes]


def test_a_long_sentence_next_to_a_short_one_costs_no_table() -> None:
    order = time_major(np.array([2, 1_000_000]))
    assert order.rows.tolist() == [1, 0]
    assert order.step_sizes[:3].tolist() == [2, 2, 1]
    assert len(order.forward) == 1_000_002


def test_distinct_words_are_looked_up_once() -> None:
    batch = index_sentences([["the", "cat", "the"], []], "<S>", "</S>")
    assert batch.words == ["<S>", "</S>", "the", "cat"]
    assert batch.index.tolist() == [0, 2, 3, 2, 1, 0, 1]
    assert batch.lengths.tolist() == [5, 2]


words = st.sampled_from(["the", "cat", "<S>", "</S>"])


@given(st.lists(st.lists(words, max_size=5), max_size=6), st.sampled_from(["</S>", "<S>"]))
def test_index_spells_the_bounded_sentences(sentences: list[list[str]], end: str) -> None:
    """Even if a boundary occurs in the text, or both boundaries are the same word."""
    batch = index_sentences(sentences, "<S>", end)
    assert len(set(batch.words)) == len(batch.words)
    bounded = [word for sentence in sentences for word in ("<S>", *sentence, end)]
    assert [batch.words[position] for position in batch.index] == bounded
    assert batch.lengths.tolist() == [len(sentence) + 2 for sentence in sentences]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.randoms())
def test_rows_without_bounds(sizes: list[int], chance: random.Random) -> None:
    """Sentences in any order go to their rows in the whole text, boundaries to one row."""
    order = chance.sample(range(len(sizes)), len(sizes))
    lengths, total = np.array(sizes), sum(sizes)
    first = np.cumsum(lengths) - lengths
    rows = rows_without_bounds(lengths[order] + 2, first[order], total)
    for sentence in order:
        size = sizes[sentence] + 2
        sentence_rows, rows = rows[:size], rows[size:]
        expected = range(first[sentence], first[sentence] + sizes[sentence])
        assert sentence_rows.tolist() == [total, *expected, total]
    assert not len(rows)
