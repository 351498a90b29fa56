"""Text that a separate process reads ahead."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from corpora import small_corpus

from elmox.errors import ElmoxError
from elmox.text.words import WordTable
from elmox.training.reader_process import batches_from_process, can_fork
from elmox.training.rows import Rows

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system cannot fork")
PIECES = [np.array([0, 1]), np.array([2, 3])]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    corpus = small_corpus(Path(tmp_path_factory.mktemp("reader")))
    return Rows(
        corpus.train,
        lambda ids: WordTable(corpus.lexicon.spell(ids), None),
        num_rows=4,
        num_steps=6,
        vocab_size=corpus.vocab_size,
        num_directions=2,
        seed=3,
        reset=0.5,
    )


def test_it_is_the_same_text(rows: Rows) -> None:
    steps = list(batches_from_process(rows, 3, 8, PIECES))
    expected = list(rows.batches(3, 8, PIECES))
    assert len(steps) == len(expected) == 5
    for batches, expected_batches in zip(steps, expected, strict=True):
        for a, b in zip(batches, expected_batches, strict=True):
            assert a.table.spelling is not None
            assert b.table.spelling is not None
            pairs = (
                (a.words, b.words), (a.inputs, b.inputs), (a.targets, b.targets), (a.kept, b.kept),
                (a.table.spelling.ids, b.table.spelling.ids),
                (a.table.spelling.lengths, b.table.spelling.lengths),
            )  # fmt: skip
            for array, other in pairs:
                assert array is not None
                assert other is not None
                np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_parents_business(rows: Rows, number: signal.Signals) -> None:
    """Ctrl-C reaches both processes, a scheduler's end too; the parent first ends its step."""
    batches = batches_from_process(rows, 0, 50, PIECES)
    next(batches)
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    for _ in range(2):  # a scheduler and a launcher that passes it on
        os.kill(child.pid, number)
    assert sum(1 for _ in batches) == 49


def test_nothing_is_left_when_the_run_stops_early(rows: Rows) -> None:
    batches = batches_from_process(rows, 0, 50, PIECES)
    next(batches)
    (child,) = multiprocessing.active_children()
    batches.close()  # type: ignore[attr-defined]
    del batches
    limit = time.monotonic() + 10
    while child.is_alive() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not child.is_alive()


def test_an_error_is_one_line(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(step: int, piece: object) -> None:
        raise ElmoxError(f"step {step}: the shard is gone")

    monkeypatch.setattr(rows, "read", fail)  # the process inherits it
    with pytest.raises(ElmoxError, match=r"^step 2: the shard is gone$"):
        next(batches_from_process(rows, 2, 5, PIECES))
