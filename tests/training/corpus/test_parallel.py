"""`map` on several processes."""

import os
from typing import Any

import pytest
from parallel_jobs import leave, process_id, square

from elmox.errors import ElmoxError
from elmox.training.corpus.parallel import map_in_order


def test_results_in_order() -> None:
    """Even with more items than are read ahead, which are not read all at once."""
    taken: list[int] = []

    def items() -> Any:
        for number in range(40):
            taken.append(number)
            yield number

    results = map_in_order(square, items(), 2)
    assert next(results) == 0
    assert len(taken) < 20
    assert list(results) == [number * number for number in range(1, 40)]
    assert os.getpid() not in map_in_order(process_id, range(5), 2)
    assert list(map_in_order(process_id, [0], 2)) == [os.getpid()]
    assert list(map_in_order(process_id, [0, 1], 1)) == [os.getpid()] * 2
    assert list(map_in_order(square, [], 2)) == []


def test_a_worker_that_dies() -> None:
    with pytest.raises(ElmoxError, match="worker process died"):
        list(map_in_order(leave, range(4), 2))
