"""A few damaged files for every reader; `benchmarks/fuzz_readers.py` runs 10,000."""

import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")

CASES = 2


def test_readers_of_damaged_files() -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("zstandard")
    from fuzz import BAD, run, targets

    outcomes = [(target.name, *case) for target in targets() for case in run(target, range(CASES))]
    bad = [case for case in outcomes if case[2] in BAD]
    assert not bad, bad
    assert len(outcomes) >= 30 * CASES
    assert sum(case[2] == "error" for case in outcomes) > len(outcomes) / 3
