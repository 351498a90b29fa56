"""Batches with little padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmox.export.batches import plan_padded_batches


@given(
    st.lists(st.integers(2, 60), max_size=80),
    st.integers(1, 200),
    st.none() | st.integers(1, 9),
    st.integers(1, 70),
)
def test_every_sentence_once_within_the_limits(
    lengths: list[int], batch_tokens: int, batch_size: int | None, step_cost: int
) -> None:
    batches = plan_padded_batches(lengths, batch_tokens, batch_size, step_cost)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    sizes = np.array(lengths, np.int64)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * sizes[batch].max() <= batch_tokens
        assert batch_size is None or len(batch) <= batch_size
        padding = (sizes[batch].max() - sizes[batch]).sum()
        assert padding <= step_cost * sizes[batch].min()


def test_a_long_sentence_does_not_pad_short_ones() -> None:
    batches = plan_padded_batches([5, 5, 50, 5, 6], 1024)
    assert [batch.tolist() for batch in batches] == [[2], [4, 0, 1, 3]]
